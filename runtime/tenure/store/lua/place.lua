-- Place a parked or a blocked route anew, or leave it parked, computed against a revision of the session registry.
--
-- uses      _now _event _ticket _route _leader _outbox
-- args      leader: token, route, candidates, registry: revision, cap
--           unmet: {name of the demand, event}, if by that registry nobody meets it
-- returns   "placed" with queue; "parked"; "stale": sessions changed meanwhile; "not_waiting";
--           "unreadable": set aside with its bytes; "not_leader"
--           "unreadable_header" with schema: it is another one, and the route stays where it is

local refused = not_leader(a)
if refused then return refused end
local instance, execution, capability = split(a.route)
local record = load(instance, execution, capability)
local header, unreadable = header_of(instance, execution)
if unreadable and unreadable.schema then return reply('unreadable_header', unreadable) end
if not header or not record or (record.where ~= Where.environment and record.where ~= Where.blocked) then
  redis.call('SREM', Key.unplaced(), a.route)
  if set_aside(Key.environment(), a.route) then return reply('unreadable') end
  return reply('not_waiting')
end
if (redis.call('GET', Key.registry()) or '0') ~= tostring(a.registry) then return reply('stale') end
record.candidates = a.candidates
if not choose(record) then
  save(instance, execution, capability, record)
  redis.call('SREM', Key.unplaced(), a.route)
  post_unmet(instance, execution, a.unmet)
  return reply('parked')
end
record.error = nil
dispatch(instance, execution, capability, record)
redis.call('SREM', Key.unplaced(), a.route)
emit(instance, execution, record.where, capability, { queue = record.queue })
publish(a.cap)
return reply('placed', { queue = record.queue })
