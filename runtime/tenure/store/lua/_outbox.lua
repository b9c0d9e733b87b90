-- The outbox: events for somebody outside, who is told of each at least once.
--
-- Other scripts call `post`; what goes on after that is deliver.lua's. A body is JSON, made and read by Python.
--
-- uses      _now

local function put(id, event, due)
  redis.call('HSET', Key.outbox_event(), id, cmsgpack.pack(event))
  redis.call('ZADD', Key.outbox(), due, id)
end

-- Post an event in the same step as what it tells of, and wake the scheduler. Returns the event's id.
--
-- Ids only grow, over a failover too, as long as primaries' clocks agree within it: who is told goes by them.
local function post(instance, execution, body)
  local last = tonumber(redis.call('GET', Key.outbox_sequence()) or '0')
  local id = string.format('%.0f', math.max(last + 1, now_us))
  redis.call('SET', Key.outbox_sequence(), id)
  put(id, { at = now, instance = instance, execution = execution, body = body }, now)
  redis.call('LPUSH', Key.nudge(), 1)
  redis.call('LTRIM', Key.nudge(), 0, 0)
  return id
end

-- Tell of a demand that nobody meets, once until somebody does: routes that want the same are one event.
local function post_unmet(instance, execution, unmet)
  if unmet and redis.call('HSETNX', Key.unmet(), unmet[1], now) == 1 then post(instance, execution, unmet[2]) end
end
