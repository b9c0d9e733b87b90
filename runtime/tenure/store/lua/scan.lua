-- A page of an index, by the store's clock: what has lapsed or is due, or just the oldest entries.
--
-- flags     no-writes
-- uses      _now
-- keys      leased due sessions environment blocked live deadlines terminal outbox
-- args      index: name of a key family without ids, limit, after: entries to pass by, due: only past their score
--           age: ms they must be past it
-- returns   "page" with entries: members, oldest first

local key = Key[a.index]()
if a.due then
  return reply('page', {
    entries = redis.call('ZRANGEBYSCORE', key, '-inf', string.format('%.0f', now - (a.age or 0)), 'LIMIT', a.after, a.limit),
  })
end
-- By rank: passing entries by costs nothing then.
return reply('page', { entries = redis.call('ZRANGE', key, a.after, a.after + a.limit - 1) })
