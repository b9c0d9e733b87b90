-- Check the index entries of one live execution, and put back what a lost write left out (G19).
--
-- uses      _now _event _ticket _route _settle _leader
-- args      leader: token, instance, execution, lease: ms, cap
-- returns   "checked" with repaired: capabilities; "ended": not live any more; "not_leader"

local refused = not_leader(a)
if refused then return refused end
local header = header_of(a.instance, a.execution)
if not header or ExecutionTerminal[header.status] then
  redis.call('ZREM', Key.live(), a.instance .. '/' .. a.execution)
  return reply('ended')
end
local repaired = {}
for _, capability in ipairs(redis.call('SMEMBERS', Key.in_flight(a.instance, a.execution))) do
  local record = load(a.instance, a.execution, capability)
  local route = member(a.instance, a.execution, capability)
  if record and record.invocation == Invocation.settled then
    redis.call('SREM', Key.in_flight(a.instance, a.execution), capability)
  elseif record and not record.where then
    dispatch(a.instance, a.execution, capability, record)
    repaired[#repaired + 1] = capability
  elseif record and not redis.call('ZSCORE', index(record.where, record.queue), route) then
    local scores = {
      [Where.waiting] = record.band * BAND + record.since, [Where.leased] = now + a.lease,
    }
    redis.call('ZADD', index(record.where, record.queue), scores[record.where] or record.due_at or record.since, route)
    repaired[#repaired + 1] = capability
  elseif record and capability == Recipe and record.where == Where.tasks and
    awaited_is_settled(a.instance, a.execution, record.awaits) then
    wake_recipe(a.instance, a.execution)
    repaired[#repaired + 1] = capability
  end
end
for _, capability in ipairs(repaired) do emit(a.instance, a.execution, 'repaired', capability, {}) end
publish(a.cap)
return reply('checked', { repaired = repaired })
