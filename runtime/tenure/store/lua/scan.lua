-- A page of an index, by the store's clock: what has lapsed or is due, or just the oldest entries.
--
-- uses      _now
-- keys      leased due sessions environment live
-- args      index: name of a key family without ids, limit, after: entries to pass by, due: only past their score
-- returns   "page" with entries: members, oldest first

local highest = a.due and string.format('%.0f', now) or '+inf'
return reply('page', {
  entries = redis.call('ZRANGEBYSCORE', Key[a.index](), '-inf', highest, 'LIMIT', a.after or 0, a.limit),
})
