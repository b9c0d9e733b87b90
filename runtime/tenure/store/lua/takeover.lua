-- Take over one route whose lease lapsed, after reading it again.
--
-- flags     allow-oom
-- uses      _now _event _ticket _route _settle _lost _leader
-- args      leader: token, route, cap, cause: text, which the holder's session completes
-- returns   "taken"; "live": renewed or superseded meanwhile; "grace": the server has just restarted;
--           "unreadable": set aside with its bytes; "not_leader"
--           "unreadable_header" with schema: it is another one, and the route stays where it is

local refused = not_leader(a)
if refused then return refused end
if in_grace() then return reply('grace') end
local deadline = redis.call('ZSCORE', Key.leased(), a.route)
if not deadline or tonumber(deadline) > now then return reply('live') end
local instance, execution, capability = split(a.route)
local record = instance and load(instance, execution, capability)
local header, unreadable
if instance then header, unreadable = header_of(instance, execution) end
if unreadable and unreadable.schema then return reply('unreadable_header', unreadable) end
-- What takes its whole host down must not do so for ever: a lapse counts like the death of a slot.
local charge = capability == Recipe and Recipe or 'task'
if not record or record.where ~= Where.leased or not header then
  if set_aside(Key.leased(), a.route) then return reply('unreadable') end
  return reply('live')
end
lose(instance, execution, capability, record, a.cause .. ' ' .. (record.session or '?'), charge, server_run())
publish(a.cap)
return reply('taken')
