-- Forget an execution that ended long ago, with everything that belongs to it. Its id is free again.
--
-- Works on a full server: it is what makes room there.
--
-- flags     allow-oom
-- uses      _now _leader _belongings
-- args      leader: token, ended: instance/execution, age: ms it is kept after its end
-- returns   "forgotten"; "kept": it has not ended, or not long ago; "not_leader"
--           "unreadable_end": what is stored does not say that it has ended. It is kept.

local refused = not_leader(a)
if refused then return refused end
local ended = redis.call('ZSCORE', Key.terminal(), a.ended)
if not ended or tonumber(ended) > now - a.age then return reply('kept') end
local instance, execution = string.match(a.ended, '^([^/]*)/(.*)$')
local header = redis.call('HMGET', Key.execution(instance, execution), 'status', 'schema')
-- What a server has lost of it is no reason to keep the rest.
if header[1] and (header[2] ~= Schema or not ExecutionTerminal[header[1]]) then return reply('unreadable_end') end
remove_all(instance, execution)
return reply('forgotten')
