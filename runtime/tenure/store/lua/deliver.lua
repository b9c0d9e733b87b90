-- Settle one delivery of an event: remove what was accepted, put off what was not and note why.
--
-- An event goes only after somebody outside has accepted it, so it may be delivered twice, and is never lost
-- in between. Works on a full server: it makes room there.
--
-- flags     allow-oom
-- uses      _now _outbox _leader
-- args      leader: token, id
--           failed: why it was not accepted; nothing if it was, or if nobody is to have it
--           tries: the failures before this one, delay: ms until it is due again, age: ms it is kept
--           unreadable: whether the caller could not read it
-- returns   "removed"; "deferred"; "dropped": it has failed again and is too old; "gone": it was settled before
--           "unreadable": not due any more, and kept with its bytes; "not_leader"

local function remove()
  redis.call('ZREM', Key.outbox(), a.id)
  redis.call('HDEL', Key.outbox_event(), a.id)
end

local refused = not_leader(a)
if refused then return refused end
local raw = redis.call('HGET', Key.outbox_event(), a.id)
if not raw then
  redis.call('ZREM', Key.outbox(), a.id)
  return reply('gone')
end
local known, event = pcall(cmsgpack.unpack, raw)
if a.unreadable or (a.failed and not (known and type(event) == 'table' and tonumber(event.at))) then
  redis.call('ZREM', Key.outbox(), a.id)
  return reply('unreadable')
end
if not a.failed then
  remove()
  return reply('removed')
end
-- This failure was noted already, or a later one.
if (event.tries or 0) > a.tries then return reply('deferred') end
if now - event.at > a.age then
  remove()
  return reply('dropped')
end
event.tries, event.reason = a.tries + 1, a.failed
put(a.id, event, now + a.delay)
return reply('deferred')
