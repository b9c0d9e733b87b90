-- How a capability gets its outcome, how a map goes on, and how an execution ends.

local function group_of(instance, execution, ordinal)
  return readable(redis.pcall('HGET', Key.groups(instance, execution), ordinal))
end

local function save_group(instance, execution, ordinal, group)
  redis.call('HSET', Key.groups(instance, execution), ordinal, cmsgpack.pack(group))
end

-- Whether a lost or stopped run of this capability could have had its effect.
local function may_have_happened(record)
  return record.effects == Effects.once and
    (record.invocation == Invocation.started or record.invocation == Invocation.unknown)
end

-- A new capability, ready to run. The caller grants or dispatches it.
local function open(instance, execution, header, spec)
  local record = {
    status = Capability.pending, ordinal = spec.ordinal, index = spec.index, group = spec.group, task = spec.task,
    hash = spec.hash, effects = spec.effects, demand = spec.demand, revision = spec.demand and 1 or nil,
    candidates = spec.candidates, band = header.band, crash_limit = spec.crash_limit,
    title = header.recipe .. ' ' .. spec.capability, attempt = 1, failures = 0, crashes = 0,
    invocation = Invocation.dispatching, ready_at = now, avoid = spec.avoid, handed_off = spec.handed_off,
  }
  become(record, Capability.ready)
  if spec.params then redis.call('HSETNX', Key.params(instance, execution), spec.capability, spec.params) end
  redis.call('SADD', Key.in_flight(instance, execution), spec.capability)
  return record
end

local function open_member(instance, execution, header, ordinal, group)
  local spec = group.template
  spec.index, spec.group, spec.ordinal = group.next, ordinal, ordinal
  spec.capability = group.prefix .. string.format('%d', group.next)
  spec.hash = group.hash
  local record = open(instance, execution, header, spec)
  redis.call('SADD', Key.group_open(instance, execution, ordinal), spec.capability)
  group.next = group.next + 1
  dispatch(instance, execution, spec.capability, record)
end

local function group_settled(instance, execution, ordinal, group)
  local all_opened = group.closed or group.next >= group.size
  return all_opened and redis.call('SCARD', Key.group_open(instance, execution, ordinal)) == 0
end

-- Record one outcome. It is written once: a capability that has an outcome keeps it (G4, G14).
local function record_outcome(instance, execution, capability, record, status, fields)
  local route = member(instance, execution, capability)
  become(record, status)
  release(route, record)
  leave(route, record)
  record.completed_at, record.error, record.error_type = now, fields.error, fields.error_type
  record.invocation, record.outcome, record.progress = Invocation.settled, fields.outcome, nil
  if status == Capability.completed then record.directive = fields.directive end
  if fields.result then redis.call('HSETNX', Key.results(instance, execution), capability, fields.result) end
  redis.call('SREM', Key.in_flight(instance, execution), capability)
  if record.group then redis.call('SREM', Key.group_open(instance, execution, record.group), capability) end
  save(instance, execution, capability, record)
  emit(instance, execution, status, capability,
    { attempt = record.attempt, error = fields.error, ms = record.started_at and now - record.started_at })
end

-- The first final failure of a map closes its siblings as cancelled. One that may have had its effect stays
-- until that is settled: nobody may forget a charge.
local function close_group(instance, execution, ordinal, group, because)
  group.closed = because
  for _, sibling in ipairs(redis.call('SMEMBERS', Key.group_open(instance, execution, ordinal))) do
    local record = load(instance, execution, sibling)
    if record and not may_have_happened(record) then
      record_outcome(instance, execution, sibling, record, Capability.cancelled,
        { error = because, outcome = Outcome.cancelled })
    end
  end
end

local function settle_member(instance, execution, header, capability, record)
  local ordinal = record.group
  local group = group_of(instance, execution, ordinal)
  if not group then return false end
  if record.status == Capability.failed and not group.closed then
    close_group(instance, execution, ordinal, group, capability .. ' failed')
  elseif not group.closed and not header.intent and group.next < group.size then
    open_member(instance, execution, header, ordinal, group)
  end
  save_group(instance, execution, ordinal, group)
  return group_settled(instance, execution, ordinal, group)
end

-- Whether what a recipe waits for has its outcome. Asked whenever its lease is given up, so that a result
-- that came while the lease was held cannot be missed.
local function awaited_is_settled(instance, execution, awaits)
  if not awaits then return false end
  if awaits.group then
    local group = group_of(instance, execution, awaits.group)
    return group ~= nil and group_settled(instance, execution, awaits.group, group)
  end
  local record = load(instance, execution, awaits.capability)
  return record ~= nil and record.invocation == Invocation.settled
end

-- Settle one capability. Says whether the recipe now has something to look at. `recipe`: its record, from a
-- caller that has just read it.
local function settle(instance, execution, header, capability, record, status, fields, recipe)
  record_outcome(instance, execution, capability, record, status, fields)
  local settled = true
  if record.group then settled = settle_member(instance, execution, header, capability, record) end
  if not settled then return false end
  recipe = recipe or load(instance, execution, Recipe)
  if not recipe or recipe.where ~= Where.tasks or not recipe.awaits then return false end
  return recipe.awaits.capability == capability or (record.group ~= nil and recipe.awaits.group == record.group)
end

local function wake_recipe(instance, execution)
  local recipe = load(instance, execution, Recipe)
  if not recipe then return end
  recipe.ready_at = nil
  dispatch(instance, execution, Recipe, recipe)
end

-- The terminal step itself (G6): one wins, its reason stays, every other lease of the execution is revoked.
local function end_execution(instance, execution, header, status, fields)
  if not ExecutionMoves[header.status][status] then
    error('an execution cannot go from ' .. header.status .. ' to ' .. status)
  end
  for _, capability in ipairs(redis.call('SMEMBERS', Key.in_flight(instance, execution))) do
    local record = load(instance, execution, capability)
    local route = member(instance, execution, capability)
    if not record then
      redis.call('ZREM', Key.blocked(), route)
    elseif capability == Recipe then
      become(record, fields.recipe_status)
      release(route, record)
      leave(route, record)
      record.invocation, record.completed_at = Invocation.settled, now
      save(instance, execution, capability, record)
    else
      record_outcome(instance, execution, capability, record, Capability.cancelled,
        { error = 'the execution ended as ' .. status, outcome = Outcome.cancelled })
    end
  end
  redis.call('DEL', Key.in_flight(instance, execution))
  local changes = { 'status', status, 'completed_at', now }
  if fields.error then changes[#changes + 1] = 'error'; changes[#changes + 1] = fields.error end
  redis.call('HSET', Key.execution(instance, execution), unpack(changes))
  redis.call('HDEL', Key.execution(instance, execution), 'intent')
  if fields.result then redis.call('HSETNX', Key.results(instance, execution), Recipe, fields.result) end
  redis.call('ZREM', Key.live(), instance .. '/' .. execution)
  redis.call('ZREM', Key.deadlines(), instance .. '/' .. execution)
  redis.call('ZADD', Key.terminal(), now, instance .. '/' .. execution)
  emit(instance, execution, 'execution_' .. status, nil, { error = fields.error })
  return true
end

-- Carry out the intent that ends an execution (G9), as far as that can be done now. What nobody has claimed is
-- closed and never starts. What is claimed or running, and what may have had its effect, stands in the way
-- until it is settled; the recipe's own code does not, and loses its lease.
local function carry_out(instance, execution, header)
  local intent, waits_for = cmsgpack.unpack(header.intent), nil
  for _, capability in ipairs(redis.call('SMEMBERS', Key.in_flight(instance, execution))) do
    local record = capability ~= Recipe and load(instance, execution, capability)
    if record and (record.where == Where.leased or may_have_happened(record)) then
      waits_for = capability
    elseif record then
      record_outcome(instance, execution, capability, record, Capability.cancelled,
        { error = intent.fields.error, outcome = Outcome.cancelled })
    end
  end
  if not waits_for then return end_execution(instance, execution, header, intent.status, intent.fields) end
  local recipe = load(instance, execution, Recipe)
  if recipe.where == Where.tasks and recipe.awaits.capability == waits_for then return false end
  release(member(instance, execution, Recipe), recipe)
  recipe.awaits = { capability = waits_for }
  move(member(instance, execution, Recipe), recipe, Where.tasks, now)
  save(instance, execution, Recipe, recipe)
  return false
end

-- Tell the agents of whatever runs that it is to stop. A hint: each renewal tells them again.
local function ask_to_stop(instance, execution)
  for _, capability in ipairs(redis.call('SMEMBERS', Key.in_flight(instance, execution))) do
    local record = load(instance, execution, capability)
    if record and record.where == Where.leased and record.session then
      local control = Key.control(record.session)
      redis.call('RPUSH', control, cmsgpack.pack({ member(instance, execution, capability), record.token }))
      redis.call('PEXPIRE', control, 60000)
    end
  end
end

-- Record the intent to end an execution, unless there is one already, and act on it. Says whether it has ended.
local function intend(instance, execution, header, status, fields)
  if not header.intent then
    header.intent = cmsgpack.pack({ status = status, fields = fields, at = now })
    redis.call('HSET', Key.execution(instance, execution), 'intent', header.intent)
    emit(instance, execution, 'ending', nil, { status = status, error = fields.error })
    ask_to_stop(instance, execution)
  end
  return carry_out(instance, execution, header)
end

-- The execution is past its deadline: that is a failure, not a cancellation.
local function miss_deadline(instance, execution, header)
  return intend(instance, execution, header, Execution.failed,
    { recipe_status = Capability.failed, error = 'its deadline has passed' })
end

-- The recipe has come to its end. While a `once` task may have had its effect that is only an intent (G6).
local function finish(instance, execution, header, status, fields)
  for _, capability in ipairs(redis.call('SMEMBERS', Key.in_flight(instance, execution))) do
    local record = capability ~= Recipe and load(instance, execution, capability)
    if record and may_have_happened(record) then return intend(instance, execution, header, status, fields) end
  end
  return end_execution(instance, execution, header, status, fields)
end

-- Close one capability because its execution is being ended: it had not started, or its run was put down.
local function withdraw(instance, execution, header, capability, record)
  record_outcome(instance, execution, capability, record, Capability.cancelled,
    { error = cmsgpack.unpack(header.intent).fields.error, outcome = Outcome.cancelled })
  carry_out(instance, execution, header)
end

-- After any settlement: go on with an intent that had to wait, or else wake the recipe if it should look.
local function after_settling(instance, execution, header, looks)
  if header.intent then return carry_out(instance, execution, header) end
  if looks then wake_recipe(instance, execution) end
  return false
end
