-- Renew the leases an agent's slots named, and its session.
--
-- A lapsed lease that nobody has superseded is renewed too (G2). A start mark that a failover lost is restored.
--
-- flags     allow-oom
-- uses      _now _event _ticket _route
-- args      session, generation, lease: ms, pairs: list of {route, token, started}
-- returns   "renewed" with lost: {route, token} of what is not current, cancelled: of what is to stop; "gone": the session is not known any more

local current = redis.call('HMGET', Key.session(a.session), 'generation', 'state')
if tonumber(current[1] or '-1') ~= a.generation or current[2] == Session.gone then return reply('gone') end
redis.call('ZADD', Key.sessions(), now + a.lease, a.session)
local lost, cancelled = {}, {}
for _, pair in ipairs(a.pairs) do
  local route, token, started = pair[1], pair[2], pair[3]
  local instance, execution, capability = split(route)
  local record = instance and load(instance, execution, capability)
  if record and holds(record, token) then
    redis.call('ZADD', Key.leased(), now + a.lease, route)
    if redis.call('HEXISTS', Key.execution(instance, execution), 'intent') == 1 then
      cancelled[#cancelled + 1] = { route, token }
    end
    if started and record.invocation == Invocation.claimed then
      record.invocation = Invocation.started
      if record.status == Capability.ready then become(record, Capability.running) end
      save(instance, execution, capability, record)
    end
  else
    lost[#lost + 1] = { route, token }
  end
end
return reply('renewed', { lost = lost, cancelled = cancelled })
