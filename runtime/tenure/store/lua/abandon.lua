-- A slot life has ended: close its sequence and put down whatever it held, with the cause of its death.
--
-- flags     allow-oom
-- uses      _now _event _ticket _route _settle _lost
-- args      life, queue, cause: text, cap, run
--           charge: "recipe", "task", "timeout", or nil when the agent stopped the slot for another reason
-- returns   "abandoned" with routes: what it held; a second call finds nothing

redis.call('HSET', Key.life(a.life), 'closed', 1)
redis.call('PEXPIRE', Key.life(a.life), 86400000)
redis.call('SREM', Key.queue_idle(a.queue), a.life)
local routes = redis.call('SMEMBERS', Key.life_routes(a.life))
redis.call('DEL', Key.life_routes(a.life))
local charged_recipe = {}
for _, route in ipairs(routes) do
  local instance, execution, capability = split(route)
  local record = load(instance, execution, capability)
  if record and record.where == Where.leased and record.life == a.life and header_of(instance, execution) then
    lose(instance, execution, capability, record, a.cause, a.charge, a.run)
    if capability == Recipe then charged_recipe[instance .. '/' .. execution] = true end
  end
end
-- In a chain the recipe lease is free while the recipe's own code runs: its death is charged all the same.
if a.charge == Recipe then
  for _, route in ipairs(routes) do
    local instance, execution = split(route)
    local id = instance .. '/' .. execution
    local header = header_of(instance, execution)
    local recipe = load(instance, execution, Recipe)
    if not charged_recipe[id] and header and recipe and not ExecutionTerminal[header.status] then
      charged_recipe[id] = true
      lose_recipe(instance, execution, header, recipe, a.cause, true)
    end
  end
end
publish(a.cap)
return reply('abandoned', { routes = routes })
