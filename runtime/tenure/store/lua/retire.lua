-- A session drains or goes: its queue is not offered work on its account any more.
--
-- flags     allow-oom
-- uses      _now _leader
-- args      session, generation: or nil for whichever lapsed, state: draining or gone
--           leader: token, when a scheduler retires a session whose lease lapsed
-- returns   "retired"; "live": renewed meanwhile; "grace"; "superseded": a later generation; "not_leader"

if a.leader then
  local refused = not_leader(a)
  if refused then return refused end
  if in_grace() then return reply('grace') end
  local expiry = redis.call('ZSCORE', Key.sessions(), a.session)
  if expiry and tonumber(expiry) > now then return reply('live') end
end
local found = redis.call('HMGET', Key.session(a.session), 'generation', 'queue', 'state')
if a.generation and tonumber(found[1] or '-1') ~= a.generation then return reply('superseded') end
-- Said before: the registry's revision stays, or whoever places by it would start over for nothing.
if found[3] == a.state or found[3] == Session.gone then return reply('retired') end
if found[2] then
  redis.call('HSET', Key.session(a.session), 'state', a.state)
  redis.call('SREM', Key.queue_sessions(found[2]), a.session)
end
if a.state == Session.gone then
  -- Its slots wait for nothing any more; counted as idle they would draw work to the queue.
  if found[2] then
    for _, life in ipairs(redis.call('SMEMBERS', Key.queue_idle(found[2]))) do
      local owner = redis.call('HGET', Key.life(life), 'session')
      if not owner or owner == a.session then redis.call('SREM', Key.queue_idle(found[2]), life) end
    end
  end
  redis.call('ZREM', Key.sessions(), a.session)
  redis.call('PEXPIRE', Key.session(a.session), 86400000)
end
redis.call('INCR', Key.registry())
redis.call('LPUSH', Key.nudge(), 1)
redis.call('LTRIM', Key.nudge(), 0, 0)
return reply('retired')
