-- The outbox: environment events that the scheduler delivers to the provisioner, at least once.
--
-- `body` is a text of the sender's that no script reads.

local function post(instance, execution, body)
  local id = string.format('%.0f', redis.call('INCR', Key.outbox_sequence()))
  redis.call('HSET', Key.outbox_event(), id,
    cmsgpack.pack({ at = now, instance = instance, execution = execution, body = body }))
  redis.call('ZADD', Key.outbox(), now, id)
  redis.call('LPUSH', Key.nudge(), 1)
  redis.call('LTRIM', Key.nudge(), 0, 0)
end
