-- Claim for a slot that was idle: the best waiting route of its queue, or else of another that fits here; or one by
-- name, wherever it waits.
--
-- By name is not by fit: whoever asks for a route it lacks something for hands it off.
--
-- uses      _now _event _ticket _route _request _grant
-- args      life, request, session, generation, queue, run, lease: ms, cap
--           ticket: the RQ job that runs here    popped: whether it has just left its list to wake this slot
--           target: the route to claim instead; that of finished work, or of a recipe that waits for others,
--           stands for its execution
-- returns   "granted" with the grant; "nothing"; "superseded"; "closed"

local done = seen(a)
if done then return done end

local function can_be_claimed(record)
  return record ~= nil and (record.where == Where.waiting or record.where == Where.environment)
end

-- The route that can go on now: the one that was asked for, or in its stead the first of its execution.
local function claimable(instance, execution, capability)
  local record = load(instance, execution, capability)
  if can_be_claimed(record) then return capability, record end
  if not record or (capability ~= Recipe and record.invocation ~= Invocation.settled) then return nil end
  local open = redis.call('SMEMBERS', Key.in_flight(instance, execution))
  table.sort(open)
  for _, name in ipairs(open) do
    local other = load(instance, execution, name)
    if can_be_claimed(other) then return name, other end
  end
end

local function claim_named(route)
  if not is_ready(a) then return nil end
  local instance, execution, asked = split(route)
  if not instance or not header_of(instance, execution) then return nil end
  local capability, record = claimable(instance, execution, asked)
  if not capability then return nil end
  if record.where == Where.waiting then drop_ticket(record) end
  return lease(instance, execution, capability, record, a)
end

local granted
if a.target then
  granted = claim_named(a.target)
else
  granted = claim_or_rest(a, a.popped)
end
publish(a.cap)
if not granted then return answer(a, { answer = 'nothing' }) end
return answer(a, { answer = 'granted', grant = granted })
