-- Check the index entries of one live execution, and put back what a lost write left out (G19).
--
-- The record is the truth: it names the one index its route is in. An entry in any other index goes.
--
-- uses      _now _event _ticket _route _settle _leader
-- args      leader: token, instance, execution, lease: ms, cap
-- returns   "checked" with repaired: capabilities; "ended": not live any more; "not_leader"
--           "unreadable_header" with schema, if it is another one: it stays as it is

local function score(record)
  if record.where == Where.waiting then return record.band * BAND + (record.ready_at or record.since) end
  if record.where == Where.leased then return now + a.lease end
  return record.due_at or record.since
end

local function is_elsewhere(route, record)
  local found = 0
  for where in pairs(Where) do
    if where ~= record.where and where ~= Where.waiting then found = found + redis.call('ZREM', Key[where](), route) end
  end
  return found > 0
end

-- A queue that is not known any more is nobody's: an entry there would never be claimed nor evicted.
local function is_nowhere(record)
  return not record.where or
    (record.where == Where.waiting and redis.call('SISMEMBER', Key.queues(), record.queue) == 0)
end

local function place_anew(capability, route, record)
  if may_have_happened(record) then
    record.invocation = Invocation.unknown
    move(route, record, Where.unknown, now)
    save(a.instance, a.execution, capability, record)
  else
    record.invocation = Invocation.dispatching
    dispatch(a.instance, a.execution, capability, record)
  end
end

local function put_back(route, record)
  redis.call('ZADD', index(record.where, record.queue), score(record), route)
  if record.where == Where.environment then redis.call('SADD', Key.unplaced(), route) end
end

local function check(capability, record)
  local route = member(a.instance, a.execution, capability)
  local changed = is_elsewhere(route, record)
  if is_nowhere(record) then
    place_anew(capability, route, record)
  elseif not redis.call('ZSCORE', index(record.where, record.queue), route) then
    put_back(route, record)
  elseif capability == Recipe and record.where == Where.tasks and
    awaited_is_settled(a.instance, a.execution, record.awaits) then
    wake_recipe(a.instance, a.execution)
  else
    return changed
  end
  return true
end

local refused = not_leader(a)
if refused then return refused end
local header, unreadable = header_of(a.instance, a.execution)
if unreadable then return reply('unreadable_header', unreadable) end
if not header or ExecutionTerminal[header.status] then
  redis.call('ZREM', Key.live(), a.instance .. '/' .. a.execution)
  return reply('ended')
end
local repaired = {}
for _, capability in ipairs(redis.call('SMEMBERS', Key.in_flight(a.instance, a.execution))) do
  local record = load(a.instance, a.execution, capability)
  if record and record.invocation == Invocation.settled then
    redis.call('SREM', Key.in_flight(a.instance, a.execution), capability)
  elseif record and record.kind ~= 'timer' and check(capability, record) then
    repaired[#repaired + 1] = capability
    emit(a.instance, a.execution, 'repaired', capability, {})
  end
end
publish(a.cap)
return reply('checked', { repaired = repaired })
