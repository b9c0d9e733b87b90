-- Requests of a slot life, in order. A resend of the last one gets its first answer; an older one has no
-- effect; an abandoned life's sequence is closed, so a claim still on its way is refused.
--
-- The stored answer names what was granted, not its payload: `attach` reads that again, it never changes.

local function attach(grant)
  if not grant then return end
  local params = redis.call('HGET', Key.params(grant.instance, grant.execution), grant.capability)
  if params then grant.params = params end
end

local function finish_reply(reply, packed)
  if not reply.grant then return packed end
  attach(reply.grant)
  return cmsgpack.pack(reply)
end

local function seen(a)
  local life = redis.call('HMGET', Key.life(a.life), 'request', 'answer', 'closed')
  if life[3] then return cmsgpack.pack({ answer = 'closed' }) end
  local last = tonumber(life[1] or '0')
  if a.request == last then return finish_reply(cmsgpack.unpack(life[2]), life[2]) end
  if a.request < last then return cmsgpack.pack({ answer = 'superseded' }) end
end

local function answer(a, reply)
  local packed = cmsgpack.pack(reply)
  redis.call('HSET', Key.life(a.life), 'session', a.session, 'request', a.request, 'answer', packed)
  redis.call('PEXPIRE', Key.life(a.life), 86400000)
  return finish_reply(reply, packed)
end
