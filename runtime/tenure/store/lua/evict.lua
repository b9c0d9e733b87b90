-- Return the waiting routes of a queue without sessions to placement, a page at a time.
--
-- What is of another schema is set aside, since the queue is about to go; whoever reads it puts it back.
--
-- uses      _now _event _ticket _route _leader
-- args      leader: token, queue, limit, cap
-- returns   "busy": it has a session; "evicted" with count, left: routes and tickets; "not_leader"

local refused = not_leader(a)
if refused then return refused end
if redis.call('SCARD', Key.queue_sessions(a.queue)) > 0 then return reply('busy') end
local routes = redis.call('ZRANGE', Key.waiting(a.queue), 0, a.limit - 1)
for _, route in ipairs(routes) do
  local instance, execution, capability = split(route)
  local record = instance and load(instance, execution, capability)
  if record and record.where == Where.waiting and record.queue == a.queue and header_of(instance, execution) then
    dispatch(instance, execution, capability, record)
    emit(instance, execution, record.where, capability, { queue = record.queue })
  else
    set_aside(Key.waiting(a.queue), route)
  end
end
for _, ticket in ipairs(redis.call('LPOP', Key.tickets(a.queue), a.limit) or {}) do
  redis.call('DEL', Key.ticket(ticket))
end
local left = redis.call('ZCARD', Key.waiting(a.queue)) + redis.call('LLEN', Key.tickets(a.queue))
if left == 0 then
  redis.call('DEL', Key.queue(a.queue), Key.queue_idle(a.queue))
  redis.call('SREM', Key.queues(), a.queue)
  redis.call('SREM', Key.rq_queues(), Key.tickets(a.queue))
  redis.call('HDEL', Key.shortage(), a.queue)
end
publish(a.cap)
return reply('evicted', { count = #routes, left = left })
