-- Win, renew or resign the scheduler's leadership.
--
-- uses      _now _leader
-- args      owner, token: of the leadership held, or 0, lease: ms, run: the server's run id
--           grace: ms nothing is taken over after the run id changed, resign: whether to let go
-- returns   "leading" with token; "following" with wait: ms until the leader's lease may lapse; "resigned"

local server = redis.call('HMGET', Key.server(), 'run')
if server[1] ~= a.run then
  local until_ = server[1] and now + a.grace or 0
  redis.call('HSET', Key.server(), 'run', a.run, 'since', now, 'grace_until', until_)
  if server[1] then redis.call('HSET', Key.leader(), 'deadline', now + a.lease) end
end
local leader = redis.call('HMGET', Key.leader(), 'owner', 'token', 'deadline')
local mine = leader[1] == a.owner and leader[2] == string.format('%.0f', a.token)
if a.resign then
  if mine then redis.call('HSET', Key.leader(), 'owner', '', 'token', '0', 'deadline', 0) end
  return reply('resigned')
end
local deadline = tonumber(leader[3] or '0')
if not mine and deadline > now then return reply('following', { wait = deadline - now }) end
local token = mine and a.token or math.max(tonumber(leader[2] or '0') + 1, now_us)
redis.call('HSET', Key.leader(), 'owner', a.owner, 'token', string.format('%.0f', token), 'deadline', now + a.lease)
return reply('leading', { token = token })
