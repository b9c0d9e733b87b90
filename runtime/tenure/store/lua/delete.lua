-- Delete an execution with everything that belongs to it, and leave a tombstone in its place (G4).
--
-- Its leases are void from here on: whoever holds one is told so. What may have had its effect is not forgotten.
--
-- uses      _now _event _ticket _route _settle _belongings
-- args      instance, execution, nonce: of this request
-- returns   "deleted"; "unknown": there is none
--           "in_doubt" with subject: a task that may have had its effect. Nothing is changed then.

local i, e = a.instance, a.execution
local name = i .. '/' .. e
if redis.call('EXISTS', Key.execution(i, e)) == 0 then
  if redis.call('GET', Key.tombstone(i, e)) == a.nonce then return reply('deleted') end
  return reply('unknown')
end

local flight = redis.call('SMEMBERS', Key.in_flight(i, e))
for _, capability in ipairs(flight) do
  local record = load(i, e, capability)
  if record and may_have_happened(record) then return reply('in_doubt', { subject = capability }) end
end
for _, capability in ipairs(flight) do
  local record, route = load(i, e, capability), member(i, e, capability)
  if record then
    release(route, record)
    leave(route, record)
    if record.group then redis.call('DEL', Key.group_open(i, e, record.group)) end
  end
  redis.call('ZREM', Key.blocked(), route)
end
remove_all(i, e)
redis.call('SET', Key.tombstone(i, e), a.nonce, 'PX', 86400000)
-- Whoever follows it learns that it is gone.
redis.call('XADD', Key.feed(), 'MAXLEN', '~', 10000, '*', 'execution', name, 'seq', 0)
return reply('deleted')
