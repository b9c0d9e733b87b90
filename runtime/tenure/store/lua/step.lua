-- The one step of a slot (design, section 6): settle what it ran, let the recipe go on, take what comes next.
--
-- A chain of short tasks costs one call of this script per task: it settles A, opens and grants B to the same
-- slot with its start mark, and frees the recipe lease. B starts only with A acknowledged here.
--
-- uses      _now _event _ticket _route _request _settle _grant _outbox
-- args      life, request, session, generation, queue, run, lease: ms, cap, ticket
--           instance, execution
--           settle: {capability, token, status, result, directive, error, error_type, outcome}   what ran, if anything
--           recipe: {frame, token, action, ...}                                          the live frame, if any
--             hold                     keep going under the recipe lease
--             run, open, on_timeout    open this capability and run it here, in the chain
--             suspend, open, group, timer, demand, awaits   open what runs elsewhere, or sleep; wait
--             yield, revision, job_needs, checkpoints, required_by, demand, candidates
--                                      accept what results require of the job, and give the recipe back
--             handoff: {reason, allocation, mismatches, event}, with suspend or yield: what is opened is handed off
--             complete, result | fail, error | block, error
--           values: recorded values of the frame (`run.now`)      ordinals: how many the frame has used
--           claim: whether to take what waits when nothing was granted
-- returns   "stepped" with recipe_token, run (the grant of B), grant (other work), ended: the status reached,
--             published: whether a demand was handed off
--           "lease_lost": nothing was changed    "frame_lost": the task is settled, the frame is void
--           "superseded"; "closed"

local done = seen(a)
if done then return done end

local i, e = a.instance, a.execution
local header = header_of(i, e)
local ran = a.settle and load(i, e, a.settle.capability)
local recipe = load(i, e, Recipe)
if not header or not recipe or ExecutionTerminal[header.status] or (a.settle and not holds(ran, a.settle.token)) then
  return answer(a, { answer = 'lease_lost' })
end

-- A frame is live while its slot holds the recipe lease, or in its place the lease on the task that it ran in the
-- chain. Without either its token is a released one (G2).
local function is_live(frame)
  if recipe.frame ~= frame.frame then return false end
  if recipe.where == Where.leased then return recipe.token == frame.token end
  return a.settle and recipe.awaits and recipe.awaits.capability == a.settle.capability
end

local framed = a.recipe and is_live(a.recipe)
if a.recipe and not framed and not a.settle then return answer(a, { answer = 'lease_lost' }) end

local result = { answer = 'stepped' }
local route = member(i, e, Recipe)

-- The recipe may be taken back where it lies, by the slot whose frame is the last that was made.
local function take_recipe()
  if recipe.where ~= Where.leased then
    recipe.awaits = nil
    grant(route, recipe, a)
    save(i, e, Recipe, recipe)
  end
  result.recipe_token = recipe.token
end

local function record_values()
  for _, value in ipairs(a.values or {}) do
    local record = open(i, e, header, value)
    become(record, Capability.running)
    record.started_at = now
    record_outcome(i, e, value.capability, record, Capability.completed,
      { result = value.result, outcome = Outcome.completed })
  end
  if a.ordinals then redis.call('HSET', Key.execution(i, e), 'ordinals', a.ordinals) end
end

local function open_group(group)
  group.next = 0
  redis.call('HSET', Key.records(i, e), group.capability, cmsgpack.pack({
    status = Capability.completed, ordinal = group.ordinal, task = group.template.task, hash = group.hash,
    size = group.size, invocation = Invocation.settled,
  }))
  for _ = 1, math.min(group.window, group.size) do open_member(i, e, header, group.ordinal, group) end
  save_group(i, e, group.ordinal, group)
end

-- Wait for what has been opened here or elsewhere and cannot have an outcome yet.
local function park_recipe(awaits)
  recipe.awaits = awaits
  release(route, recipe)
  move(route, recipe, Where.tasks, now)
  save(i, e, Recipe, recipe)
end

-- Wait for what may have its outcome already.
local function wait_for_tasks(awaits)
  if not awaited_is_settled(i, e, awaits) then return park_recipe(awaits) end
  recipe.awaits, recipe.ready_at = awaits, nil
  dispatch(i, e, Recipe, recipe)
end

local function run_here(spec)
  local record = open(i, e, header, spec)
  grant(member(i, e, spec.capability), record, a)
  become(record, Capability.running)
  record.invocation, record.started_at, record.on_timeout = Invocation.started, now, a.recipe.on_timeout
  save(i, e, spec.capability, record)
  emit(i, e, Invocation.started, spec.capability,
    { attempt = record.attempt, token = record.token, session = a.session })
  if a.ticket and redis.call('EXISTS', Key.ticket(a.ticket)) == 1 then
    redis.call('HSET', Key.ticket(a.ticket), 'description', title(record))
  end
  park_recipe({ capability = spec.capability })
  result.run = { token = record.token, attempt = record.attempt }
end

-- What is published because a slot lacks it, or a task asked for it, is a handoff with its event.
local function hand_off(capability)
  local handoff = a.recipe.handoff
  if not handoff then return end
  emit(i, e, 'handoff', capability, {
    reason = handoff.reason, mismatches = handoff.mismatches, allocation = handoff.allocation, published = true,
    session = a.session, required_by = a.recipe.required_by,
  })
  post(i, e, handoff.event)
  result.published = true
end

local function open_elsewhere(spec)
  local record = open(i, e, header, spec)
  dispatch(i, e, spec.capability, record)
  emit(i, e, record.where, spec.capability, { queue = record.queue })
end

-- A timer is no route: the recipe itself lies in the due index until it is over.
local function sleep(timer)
  local record = open(i, e, header, timer)
  become(record, Capability.running)
  record.kind, record.started_at, record.invocation = 'timer', now, Invocation.started
  save(i, e, timer.capability, record)
  redis.call('HSETNX', Key.results(i, e), timer.capability, timer.result)
  recipe.awaits, recipe.ready_at = { capability = timer.capability }, nil
  release(route, recipe)
  publish_demand(recipe, a.recipe.demand)
  move(route, recipe, Where.due, now + timer.delay)
  save(i, e, Recipe, recipe)
  emit(i, e, 'sleeping', timer.capability, { ms = timer.delay })
end

-- Overlay what results require of the job, once, and give the recipe route back with its new demand. By another
-- revision nothing is accepted: the directives lie beside their results, for the next replay to find.
local function yield()
  if (recipe.revision or 0) == a.recipe.revision then
    local key = Key.execution(i, e)
    local checkpoints = readable(redis.call('HGET', key, 'checkpoints')) or {}
    for capability, hash in pairs(a.recipe.checkpoints) do checkpoints[capability] = hash end
    redis.call('HSET', key, 'checkpoints', cmsgpack.pack(checkpoints), 'job_needs', a.recipe.job_needs)
    recipe.demand, recipe.revision = a.recipe.demand, (recipe.revision or 0) + 1
    recipe.candidates, recipe.avoid, recipe.handed_off = a.recipe.candidates, nil, a.recipe.handoff.allocation
    if a.recipe.handoff.mismatches[1] then recipe.avoid = { [a.queue] = true } end
    hand_off(Recipe)
  end
  recipe.awaits, recipe.ready_at = nil, nil
  dispatch(i, e, Recipe, recipe)
end

local function finish_recipe(status, fields)
  if recipe.where ~= Where.leased then take_recipe() end
  if finish(i, e, header, status, fields) then result.ended = status end
end

local actions = {
  hold = function() take_recipe() end,
  run = function()
    if outranked(a.queue, header.band) then
      open_elsewhere(a.recipe.open)
      wait_for_tasks({ capability = a.recipe.open.capability })
    else
      run_here(a.recipe.open)
    end
  end,
  suspend = function()
    if a.recipe.timer then return sleep(a.recipe.timer) end
    if a.recipe.open then
      open_elsewhere(a.recipe.open)
      hand_off(a.recipe.open.capability)
    end
    if a.recipe.group then
      open_group(a.recipe.group)
      hand_off(a.recipe.group.capability)
    end
    wait_for_tasks(a.recipe.awaits)
  end,
  yield = yield,
  complete = function()
    finish_recipe(Execution.completed, { recipe_status = Capability.completed, result = a.recipe.result })
  end,
  fail = function()
    finish_recipe(Execution.failed, { recipe_status = Capability.failed, error = a.recipe.error })
  end,
  block = function()
    release(route, recipe)
    recipe.error = a.recipe.error
    move(route, recipe, Where.blocked, now)
    save(i, e, Recipe, recipe)
    emit(i, e, Where.blocked, Recipe, { error = a.recipe.error })
  end,
}

-- Whoever holds the token may settle, also if a failover has lost its start mark.
if a.settle and ran.status == Capability.ready then become(ran, Capability.running) end
-- A late error after a cancellation blames nobody (G14).
local status = a.settle and a.settle.status
if header.intent and status == Capability.failed then status = Capability.cancelled end
local looks = a.settle and settle(i, e, header, a.settle.capability, ran, status, a.settle, recipe)
if header.intent and a.settle then
  after_settling(i, e, header, looks)
  result.answer = 'frame_lost'
elseif header.deadline and now >= header.deadline and not header.intent then
  -- A deadline binds whoever comes first, this step or the scheduler.
  if miss_deadline(i, e, header) then result.ended = Execution.failed end
  result.answer = 'frame_lost'
elseif framed then
  record_values()
  actions[a.recipe.action]()
else
  if a.recipe then result.answer = 'frame_lost' end
  if looks then
    recipe = load(i, e, Recipe)
    local here = false
    for _, candidate in ipairs(recipe.candidates or {}) do here = here or candidate[1] == a.queue end
    if a.claim and here and is_ready(a) and not outranked(a.queue, header.band) then
      lease_recipe(i, e, recipe, a)
      result.grant = describe(i, e, Recipe, recipe)
    else
      wake_recipe(i, e)
    end
  end
end
if a.claim and not result.grant and not result.run then result.grant = claim_or_rest(a, false) end
publish(a.cap)
return answer(a, result)
