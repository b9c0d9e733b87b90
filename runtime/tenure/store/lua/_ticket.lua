-- Tickets: the RQ jobs that say that a queue has work. They carry ids and a title, nothing else (G10).

local function iso(ms)
  -- Civil date from days since the epoch (Howard Hinnant, "chrono-Compatible Low-Level Date Algorithms").
  local seconds = math.floor(ms / 1000)
  local days, rest = math.floor(seconds / 86400) + 719468, seconds % 86400
  local era = math.floor(days / 146097)
  local doe = days - era * 146097
  local yoe = math.floor((doe - math.floor(doe / 1460) + math.floor(doe / 36524) - math.floor(doe / 146096)) / 365)
  local doy = doe - (365 * yoe + math.floor(yoe / 4) - math.floor(yoe / 100))
  local mp = math.floor((5 * doy + 2) / 153)
  local day = doy - math.floor((153 * mp + 2) / 5) + 1
  local month = mp < 10 and mp + 3 or mp - 9
  local year = yoe + era * 400 + (month <= 2 and 1 or 0)
  return string.format('%04d-%02d-%02dT%02d:%02d:%02d.%03d000Z', year, month, day, math.floor(rest / 3600),
    math.floor(rest % 3600 / 60), rest % 60, ms % 1000)
end

local function title(record)
  return record.title .. ' attempt ' .. string.format('%d', record.attempt)
end

local function write_ticket(queue, route, description)
  local ticket = Ticket.prefix .. string.format('%.0f', redis.call('INCR', Key.ticket_sequence()))
  local at = iso(now)
  redis.call('HSET', Key.ticket(ticket), 'data', Ticket.data, 'origin', queue, 'status', Ticket.status,
    'timeout', Ticket.timeout, 'result_ttl', 0, 'failure_ttl', Ticket.failure_ttl, 'created_at', at,
    'enqueued_at', at, 'description', description, 'route', route)
  redis.call('SADD', Key.rq_queues(), Key.tickets(queue))
  redis.call('RPUSH', Key.tickets(queue), ticket)
  return ticket
end
