-- Win, renew or resign the scheduler's leadership.
--
-- An owner is known by its id alone and is told its token again, so that one whose reply was lost still leads.
-- Renewal works on a full server, or nothing could be taken over there.
--
-- flags     allow-oom
-- uses      _now _leader
-- args      owner: an id no other process has, lease: ms, resign: whether to let go
--           grace: ms nothing is taken over after the run id changed
-- returns   "leading" with token; "following" with wait: ms until the leader's lease may lapse; "resigned"

local known, run = redis.call('HGET', Key.server(), 'run'), server_run()
local leader = redis.call('HMGET', Key.leader(), 'owner', 'token', 'deadline')
local owner, last, deadline = leader[1] or '', tonumber(leader[2] or '0'), tonumber(leader[3] or '0')
local mine = owner == a.owner
if a.resign then
  -- The token passes on, so that writes still on their way are refused.
  if mine then redis.call('HSET', Key.leader(), 'owner', '', 'token', string.format('%.0f', last + 1), 'deadline', 0) end
  return reply('resigned')
end
if known ~= run then
  redis.call('HSET', Key.server(), 'run', run, 'since', now, 'grace_until', known and now + a.grace or 0)
  if known and owner ~= '' then
    deadline = now + a.lease
    redis.call('HSET', Key.leader(), 'deadline', deadline)
  end
end
if not mine and deadline > now then return reply('following', { wait = deadline - now }) end
local token = mine and last or math.max(last + 1, now_us)
redis.call('HSET', Key.leader(), 'owner', a.owner, 'token', string.format('%.0f', token), 'deadline', now + a.lease)
return reply('leading', { token = token })
