-- Create an execution with its recipe route, once.
--
-- uses      _now _event _ticket _route _outbox
-- args      instance, execution, nonce: of this request        header: flat list of header fields
--           input_hash, recipe, band, params, candidates, crash_limit, cap: events kept
--           demand: of the recipe route, if it is known here
--           registry: revision the candidates were computed from
--           unmet: {name of the demand, event}, if by that registry nobody meets it
--           delay: ms, or at: ms of the store's clock, before it may begin    deadline: ms after which it fails
-- returns   "created"; "exists": the same input; "conflict": another recipe or input;
--           "deleted": a tombstone; "stale": nobody can admit it, by an older registry. Nothing is written then.

local key = Key.execution(a.instance, a.execution)
local found = redis.call('HMGET', key, 'nonce', 'input_hash', 'recipe')
if found[2] then
  if found[1] == a.nonce then return reply('created') end
  if found[2] == a.input_hash and found[3] == a.recipe then return reply('exists') end
  return reply('conflict', { recipe = found[3] })
end
if redis.call('EXISTS', Key.tombstone(a.instance, a.execution)) == 1 then return reply('deleted') end

local record = {
  status = Capability.pending, ordinal = 0, task = a.recipe, effects = Effects.repeatable, demand = a.demand,
  revision = a.demand and 1 or nil, candidates = a.candidates, band = a.band, crash_limit = a.crash_limit,
  title = a.recipe, attempt = 1, failures = 0, crashes = 0, invocation = Invocation.dispatching,
}
local due = a.at or (a.delay and now + a.delay)
local later = due and due > now
local nobody = not later and not choose(record)
if nobody and (redis.call('GET', Key.registry()) or '0') ~= tostring(a.registry) then return reply('stale') end

become(record, Capability.ready)
redis.call('HSET', key, unpack(a.header))
redis.call('HSET', key, 'status', Execution.pending, 'created_at', now, 'nonce', a.nonce)
redis.call('HSET', Key.params(a.instance, a.execution), Recipe, a.params)
redis.call('SADD', Key.in_flight(a.instance, a.execution), Recipe)
redis.call('ZADD', Key.listing(a.instance), now, a.execution)
redis.call('ZADD', Key.live(), now, a.instance .. '/' .. a.execution)
emit(a.instance, a.execution, 'created', nil, { recipe = a.recipe })
if a.deadline then redis.call('HSET', key, 'deadline', now + a.deadline) end
if a.deadline then redis.call('ZADD', Key.deadlines(), now + a.deadline, a.instance .. '/' .. a.execution) end
if later then
  move(member(a.instance, a.execution, Recipe), record, Where.due, due)
  save(a.instance, a.execution, Recipe, record)
elseif nobody then
  -- Placed by the registry as it is, so there is nothing to look at before that changes.
  record.ready_at = now
  park(member(a.instance, a.execution, Recipe), record)
  post_unmet(a.instance, a.execution, a.unmet)
  save(a.instance, a.execution, Recipe, record)
else
  dispatch(a.instance, a.execution, Recipe, record)
end
emit(a.instance, a.execution, record.where, Recipe, { queue = record.queue })
publish(a.cap)
return reply('created')
