-- Register a session under its next generation, and its queue.
--
-- uses      _now
-- args      session, nonce: of this agent process, pool, host, boot, pid, queue, slots, lease: ms
--           allocation, catalogue: packed by the caller, opaque here
-- returns   "registered" with generation; "taken": another live agent has this name

local key = Key.session(a.session)
local found = redis.call('HMGET', key, 'nonce', 'generation', 'state')
local expiry = tonumber(redis.call('ZSCORE', Key.sessions(), a.session) or '0')
if found[1] == a.nonce and found[3] == Session.ready then
  return reply('registered', { generation = tonumber(found[2]) })
end
if found[1] and found[1] ~= a.nonce and found[3] ~= Session.gone and expiry > now then return reply('taken') end
local generation = redis.call('HINCRBY', key, 'generation', 1)
redis.call('HSET', key, 'nonce', a.nonce, 'state', Session.ready, 'pool', a.pool, 'host', a.host, 'boot', a.boot,
  'pid', a.pid, 'queue', a.queue, 'slots', a.slots, 'registered_at', now)
redis.call('PERSIST', key)
redis.call('ZADD', Key.sessions(), now + a.lease, a.session)
redis.call('HSET', Key.queue(a.queue), 'pool', a.pool, 'allocation', a.allocation, 'catalogue', a.catalogue)
redis.call('SADD', Key.queues(), a.queue)
redis.call('SADD', Key.queue_sessions(a.queue), a.session)
redis.call('INCR', Key.registry())
redis.call('LPUSH', Key.nudge(), 1)
redis.call('LTRIM', Key.nudge(), 0, 0)
return reply('registered', { generation = generation })
