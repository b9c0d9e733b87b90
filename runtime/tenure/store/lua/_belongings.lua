-- Everything that belongs to one execution, in one place: its keys, and its entries in indexes of executions.
--
-- What its routes have elsewhere is taken back first, by whoever ends them.

local function remove_all(instance, execution)
  local name = instance .. '/' .. execution
  -- A map of ten thousand is a few large keys, which the server frees in the background.
  redis.call('UNLINK', Key.execution(instance, execution), Key.records(instance, execution),
    Key.params(instance, execution), Key.results(instance, execution), Key.groups(instance, execution),
    Key.attempts(instance, execution), Key.in_flight(instance, execution), Key.events(instance, execution))
  redis.call('ZREM', Key.listing(instance), execution)
  for _, index in ipairs({ Key.live(), Key.terminal(), Key.deadlines() }) do redis.call('ZREM', index, name) end
end
