-- Make one due route ready.
--
-- uses      _now _event _ticket _route _settle _leader
-- args      leader: token, route, cap
-- returns   "dispatched"; "not_due"; "unreadable": set aside with its bytes; "not_leader"
--           "unreadable_header" with schema: it is another one, and the route stays where it is

local refused = not_leader(a)
if refused then return refused end
local score = redis.call('ZSCORE', Key.due(), a.route)
if not score or tonumber(score) > now then return reply('not_due') end
local instance, execution, capability = split(a.route)
local record = instance and load(instance, execution, capability)
local header, unreadable
if instance then header, unreadable = header_of(instance, execution) end
if unreadable and unreadable.schema then return reply('unreadable_header', unreadable) end
if not record or record.where ~= Where.due or not header then
  if set_aside(Key.due(), a.route) then return reply('unreadable') end
  return reply('not_due')
end
-- A recipe that slept: its timer is done.
local timer = capability == Recipe and record.awaits and load(instance, execution, record.awaits.capability)
if timer and timer.kind == 'timer' then
  record_outcome(instance, execution, record.awaits.capability, timer, Capability.completed,
    { outcome = Outcome.completed })
end
dispatch(instance, execution, capability, record)
emit(instance, execution, record.where, capability, { queue = record.queue, attempt = record.attempt })
publish(a.cap)
return reply('dispatched')
