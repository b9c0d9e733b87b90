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
-- A server may have lost all of a header, and that is no reason to keep the rest. What is left of one is.
if header[2] ~= Schema or not ExecutionTerminal[header[1] or ''] then
  if redis.call('EXISTS', Key.execution(instance, execution)) == 1 then return reply('unreadable_end') end
end
remove_all(instance, execution)
return reply('forgotten')
