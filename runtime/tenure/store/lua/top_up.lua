-- Make up for lost tickets: what was short at the last sweep and still is gets new ones (G10).
--
-- uses      _now _event _ticket _route _leader
-- args      leader: token, queue, limit: tickets a sweep writes at most
-- returns   "topped_up" with count; "not_leader"

local refused = not_leader(a)
if refused then return refused end
local short = redis.call('ZCARD', Key.waiting(a.queue)) - redis.call('LLEN', Key.tickets(a.queue))
local before = tonumber(redis.call('HGET', Key.shortage(), a.queue) or '0')
local count = math.max(math.min(short, before, a.limit), 0)
if count > 0 then
  for _, route in ipairs(redis.call('ZRANGE', Key.waiting(a.queue), 0, count - 1)) do
    local instance, execution, capability = split(route)
    local record = instance and load(instance, execution, capability)
    if not record or record.where ~= Where.waiting or record.queue ~= a.queue then
      set_aside(Key.waiting(a.queue), route)
    elseif is_of_others(instance, execution) then
      -- A ticket only wakes a slot, which takes what it can read.
      write_ticket(a.queue, route, route)
    else
      record.ticket = write_ticket(a.queue, route, title(record))
      save(instance, execution, capability, record)
    end
  end
end
redis.call('HSET', Key.shortage(), a.queue, math.max(short - count, 0))
return reply('topped_up', { count = count })
