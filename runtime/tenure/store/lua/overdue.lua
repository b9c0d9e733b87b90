-- An execution has passed its deadline: it fails, as soon as nothing stands in the way.
--
-- uses      _now _event _ticket _route _settle _leader
-- args      leader: token, live: instance/execution, cap
-- returns   "ended"; "requested": what runs was asked to stop; "not_due"; "not_leader"
--           "unreadable_header" with schema, if it is another one: its deadline stays

local refused = not_leader(a)
if refused then return refused end
local deadline = redis.call('ZSCORE', Key.deadlines(), a.live)
if not deadline or tonumber(deadline) > now then return reply('not_due') end
local instance, execution = string.match(a.live, '^([^/]*)/(.*)$')
local header, unreadable = header_of(instance, execution)
if unreadable then return reply('unreadable_header', unreadable) end
redis.call('ZREM', Key.deadlines(), a.live)
if not header or ExecutionTerminal[header.status] then return reply('not_due') end
local ended = miss_deadline(instance, execution, header)
publish(a.cap)
if ended then return reply('ended') end
return reply('requested')
