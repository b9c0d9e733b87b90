-- Write a chunk of a map's parameters, under the recipe lease, before any of its routes is opened.
--
-- uses      _now _event _ticket _route
-- args      instance, execution, token, params: flat list of capability, parameters, ...
-- returns   "written"; "lease_lost"

if not holds(load(a.instance, a.execution, Recipe), a.token) then return reply('lease_lost') end
redis.call('HSET', Key.params(a.instance, a.execution), unpack(a.params))
return reply('written')
