-- What a slot is told of the route it was granted, and how the best route of a queue is claimed.

local function describe(instance, execution, capability, record)
  local grant_ = {
    instance = instance, execution = execution, capability = capability, token = record.token,
    attempt = record.attempt, failures = record.failures, task = record.task, effects = record.effects,
    demand = record.demand, revision = record.revision,
  }
  if capability == Recipe then
    local h = redis.call('HMGET', Key.execution(instance, execution), 'recipe', 'version', 'correlation', 'job_needs',
      'ordinals', 'checkpoints')
    grant_.recipe, grant_.version, grant_.correlation = h[1], h[2], h[3] or nil
    grant_.job_needs = h[4] or nil
    grant_.ordinals = tonumber(h[5] or '0')
    grant_.checkpoints = h[6] and cmsgpack.unpack(h[6]) or nil
  end
  return grant_
end

-- Lease a recipe route: a new frame begins, so the live frame of anybody else is void.
local function lease_recipe(instance, execution, record, holder)
  grant(member(instance, execution, Recipe), record, holder)
  record.frame, record.invocation, record.awaits = record.token, Invocation.started, nil
  local header = Key.execution(instance, execution)
  local status = redis.call('HGET', header, 'status')
  if status == Execution.pending then
    redis.call('HSET', header, 'status', Execution.running, 'started_at', now)
    become(record, Capability.running)
    record.started_at = now
    emit(instance, execution, 'execution_' .. Execution.running, nil, {})
  end
  save(instance, execution, Recipe, record)
  emit(instance, execution, 'replay', Recipe, { token = record.token, session = holder.session })
end

local function lease_task(instance, execution, capability, record, holder)
  grant(member(instance, execution, capability), record, holder)
  record.invocation = Invocation.claimed
  save(instance, execution, capability, record)
  emit(instance, execution, Invocation.claimed, capability,
    { attempt = record.attempt, token = record.token, session = holder.session })
end

local function lease(instance, execution, capability, record, holder)
  if capability == Recipe then
    lease_recipe(instance, execution, record, holder)
  else
    lease_task(instance, execution, capability, record, holder)
  end
  return describe(instance, execution, capability, record)
end

-- The RQ job that runs here shows what it runs.
local function show(ticket, route, record)
  if ticket and redis.call('EXISTS', Key.ticket(ticket)) == 1 then
    redis.call('HSET', Key.ticket(ticket), 'route', route, 'description', title(record))
  end
end

-- The ticket of a route that is claimed elsewhere than in its queue goes with it.
local function drop_ticket(record)
  if not record.ticket then return end
  redis.call('LREM', Key.tickets(record.queue), 1, record.ticket)
  redis.call('DEL', Key.ticket(record.ticket))
  record.ticket = nil
end

-- Keep RQ's queue as long as the backlog: the claimed route's ticket leaves with it, and a ticket that some
-- other route brought takes that route's place. `ticket` is the RQ job that runs here.
local function exchange_tickets(queue, route, record, ticket, popped)
  local spent = popped and ticket or redis.call('LPOP', Key.tickets(queue))
  if spent and spent ~= record.ticket then
    local other_route = redis.call('HGET', Key.ticket(spent), 'route')
    if other_route and record.ticket and redis.call('EXISTS', Key.ticket(record.ticket)) == 1 then
      local i, e, c = split(other_route)
      local other = i and load(i, e, c)
      if other and other.where == Where.waiting and other.ticket == spent and header_of(i, e) then
        other.ticket = record.ticket
        redis.call('HSET', Key.ticket(record.ticket), 'route', other_route, 'description', title(other))
        save(i, e, c, other)
      end
    end
  end
  if spent and not popped then redis.call('DEL', Key.ticket(spent)) end
  show(ticket, route, record)
  record.ticket = nil
end

-- What a claim passes by because processes of another schema are to take it. More than this at the head of a
-- queue is set aside, or those behind would wait for an upgrade that may never come.
local PASSED_BY = 20

-- Whether the holder's session takes work; one that drains does not.
local function is_ready(holder)
  return redis.call('HGET', Key.session(holder.session), 'state') == Session.ready
end

-- The best waiting route of the holder's queue, leased. Entries that are not true any more are dropped.
local function claim_best(holder, popped)
  local passed = 0
  for _ = 1, 50 do
    local route = redis.call('ZRANGE', Key.waiting(holder.queue), passed, passed)[1]
    if not route then return nil end
    local instance, execution, capability = split(route)
    local record = instance and load(instance, execution, capability)
    if record and record.where == Where.waiting and record.queue == holder.queue and header_of(instance, execution) then
      exchange_tickets(holder.queue, route, record, holder.ticket, popped)
      return lease(instance, execution, capability, record, holder)
    end
    if passed < PASSED_BY and instance and is_of_others(instance, execution) then
      passed = passed + 1
    else
      set_aside(Key.waiting(holder.queue), route)
    end
  end
end

local function may_run_in(record, queue)
  if record.avoid and record.avoid[queue] then return false end
  for _, candidate in ipairs(record.candidates or {}) do
    if candidate[1] == queue then return true end
  end
  return false
end

-- What waits in another queue and could as well be done here: placement put it where it was best then, and a slot
-- with nothing else to do takes it rather than rest. What idle slots of that queue are about to take is left to them.
local BORROWED_FROM = 10
local function borrow(holder)
  for _, queue in ipairs(redis.call('SMEMBERS', Key.queues())) do
    if queue ~= holder.queue then
      local first = redis.call('SCARD', Key.queue_idle(queue))
      for _, route in ipairs(redis.call('ZRANGE', Key.waiting(queue), first, first + BORROWED_FROM - 1)) do
        local instance, execution, capability = split(route)
        local record = instance and load(instance, execution, capability)
        if record and record.where == Where.waiting and record.queue == queue and may_run_in(record, holder.queue)
          and header_of(instance, execution) then
          drop_ticket(record)
          show(holder.ticket, route, record)
          return lease(instance, execution, capability, record, holder)
        end
      end
    end
  end
end

local function claim_or_rest(holder, popped)
  local granted = is_ready(holder) and (claim_best(holder, popped) or borrow(holder)) or nil
  if not granted then redis.call('SADD', Key.queue_idle(holder.queue), holder.life) end
  return granted
end

-- Whether some route that waits in this queue is more urgent than `band`.
local function outranked(queue, band)
  local best = redis.call('ZRANGE', Key.waiting(queue), 0, 0, 'WITHSCORES')[2]
  return best ~= nil and math.floor(tonumber(best) / BAND) < band
end
