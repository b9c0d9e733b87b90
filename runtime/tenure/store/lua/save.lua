-- Save a whole execution as somebody holds it: insert it, or bring what is stored forward to it.
--
-- A status goes only where its table leads, and what is recorded stays (G4). What a slot holds needs the token of
-- its lease (G2). Nothing is written unless all of it may be.
--
-- An execution that the engine runs has a recipe route; of it, outcomes and its failed or cancelled end may be
-- saved, since everything else comes from running it.
--
-- uses      _now _event _ticket _route _settle
-- args      instance, execution, nonce: of this request, insert: only if there is none, token, cap
--           header: flat list of header fields, for an insertion     recipe, blueprint, correlation, parent: of it
--           status, started_at, completed_at, error, in_flight, input: bytes
--           capabilities: {capability, ordinal, status, started_at, completed_at, error, params, result}
-- returns   "saved"
--           "exists": to an insertion, or of another blueprint, parent or correlation id; "deleted": a tombstone
--           "lease_lost"; "unreadable"
--           "moved_on" with subject, stored, given: statuses     "recorded" with subject, payload
--           "engine_owned" with subject, given                   "in_doubt" with subject: it may have had its effect

local i, e = a.instance, a.execution
local key = Key.execution(i, e)
local name = i .. '/' .. e

local function record_of(capability)
  local record = load(i, e, capability)
  return record, not record and redis.call('HEXISTS', Key.records(i, e), capability) == 1
end

-- Whether a table of moves leads from one status to another, in however many steps.
local function leads(moves, from, to)
  if from == to then return true end
  for step in pairs(moves[from]) do
    if leads(moves, step, to) then return true end
  end
  return false
end

local function is_other(payloads, field, given)
  local recorded = given and redis.call('HGET', payloads, field)
  return recorded and recorded ~= given
end

-- What each capability is to become: those that change, or the answer that refuses it all.
local function changes_to(stored)
  local changes = {}
  for _, given in ipairs(a.capabilities) do
    local record, unreadable = record_of(given.capability)
    if unreadable then return nil, reply('unreadable') end
    local was = record and record.status or Capability.pending
    local ended = was ~= given.status and ExecutionTerminal[stored]
    if ended or not leads(CapabilityMoves, was, given.status) then
      return nil, reply('moved_on', { subject = given.capability, stored = was, given = given.status })
    end
    if is_other(Key.params(i, e), given.capability, given.params) then
      return nil, reply('recorded', { subject = given.capability, payload = 'params' })
    end
    if is_other(Key.results(i, e), given.capability, given.result) then
      return nil, reply('recorded', { subject = given.capability, payload = 'result' })
    end
    if was ~= given.status then changes[#changes + 1] = given end
  end
  return changes
end

local function record_payloads(given)
  if given.params then redis.call('HSETNX', Key.params(i, e), given.capability, given.params) end
  if given.result then redis.call('HSETNX', Key.results(i, e), given.capability, given.result) end
end

-- An execution without a recipe route: whoever saves it moves it.

local function list_by_end()
  if ExecutionTerminal[a.status] then
    redis.call('ZREM', Key.live(), name)
    redis.call('ZADD', Key.terminal(), now, name)
  else
    redis.call('ZADD', Key.live(), redis.call('HGET', key, 'created_at'), name)
  end
end

local function write_header(was)
  redis.call('HSET', key, 'status', a.status, 'in_flight', a.in_flight)
  if a.input then redis.call('HSETNX', Key.params(i, e), Recipe, a.input) end
  if a.started_at then redis.call('HSETNX', key, 'started_at', a.started_at) end
  if was == a.status then return end
  if a.completed_at then redis.call('HSET', key, 'completed_at', a.completed_at) end
  if a.error then redis.call('HSET', key, 'error', a.error) end
  list_by_end()
  emit(i, e, 'execution_' .. a.status, nil, { error = a.error })
end

local function write_capability(given)
  local settled = next(CapabilityMoves[given.status]) == nil
  local begun = given.started_at and Invocation.started or Invocation.dispatching
  record_payloads(given)
  save(i, e, given.capability, {
    status = given.status, ordinal = given.ordinal, task = given.capability, error = given.error,
    started_at = given.started_at, completed_at = given.completed_at,
    invocation = settled and Invocation.settled or begun,
  })
  emit(i, e, given.status, given.capability, { error = given.error })
end

local function insert()
  redis.call('HSET', key, unpack(a.header))
  redis.call('HSET', key, 'created_at', now, 'nonce', a.nonce)
  redis.call('ZADD', Key.listing(i), now, e)
  emit(i, e, 'created', nil, { recipe = a.recipe })
  write_header(Execution.pending)
  list_by_end()
  for _, given in ipairs(a.capabilities) do
    if given.status ~= Capability.pending then write_capability(given) end
  end
end

-- An execution that the engine runs.

local function leases()
  local held, any = {}, false
  for _, capability in ipairs(redis.call('SMEMBERS', Key.in_flight(i, e))) do
    local record = load(i, e, capability)
    if record and record.where == Where.leased then held[capability], any = record.token, true end
  end
  return held, any
end

-- An outcome of what is leased needs the token of that lease; the end of all, which revokes the others, needs the
-- recipe's.
local function is_fenced(changes, ends)
  local held, any = leases()
  if not any then return a.token ~= nil end
  local known = false
  for _, token in pairs(held) do known = known or token == a.token end
  if not known then return true end
  if ends and held[Recipe] and held[Recipe] ~= a.token then return true end
  for _, given in ipairs(changes) do
    local lease = held[given.capability]
    if lease and lease ~= a.token and not (ends and given.status == Capability.cancelled) then return true end
  end
  return false
end

local outcomes = {
  [Capability.completed] = Outcome.completed, [Capability.failed] = Outcome.failed,
  [Capability.cancelled] = Outcome.cancelled,
}

-- Why the engine's own business would be touched, as an answer; nil if it would not.
local function trespass(changes, header, ends)
  if header.status ~= a.status and (a.status == Execution.running or a.status == Execution.completed) then
    return reply('engine_owned', { given = a.status })
  end
  local settled = {}
  for _, given in ipairs(changes) do
    local record = load(i, e, given.capability)
    local with_the_rest = ends and given.status == Capability.cancelled
    -- What has a kind is no task: its outcome comes from the script that ends its wait.
    if not record or not outcomes[given.status] or (record.kind and not with_the_rest) then
      return reply('engine_owned', { subject = given.capability, given = given.status })
    end
    local own = holds(record, a.token) and given.status ~= Capability.cancelled
    if may_have_happened(record) and not own then return reply('in_doubt', { subject = given.capability }) end
    settled[given.capability] = true
  end
  for _, capability in ipairs(ends and redis.call('SMEMBERS', Key.in_flight(i, e)) or {}) do
    local record = not settled[capability] and load(i, e, capability)
    if record and may_have_happened(record) then return reply('in_doubt', { subject = capability }) end
  end
end

local function settle_given(header, given)
  local record = load(i, e, given.capability)
  -- The failure of a map's member has closed its siblings by now.
  if not CapabilityMoves[record.status][Capability.cancelled] then return false end
  if record.status == Capability.ready and given.status == Capability.completed then
    become(record, Capability.running)
    record.started_at = record.started_at or given.started_at
  end
  return settle(i, e, header, given.capability, record, given.status,
    { result = given.result, error = given.error, outcome = outcomes[given.status] })
end

local function advance_engine(header, changes, ends)
  local looks = false
  for _, given in ipairs(changes) do
    -- What is cancelled with all the rest is closed with it, or a map would open other items in its place.
    local with_the_rest = ends and given.status == Capability.cancelled
    looks = not with_the_rest and settle_given(header, given) or looks
  end
  if ends then
    finish(i, e, header, a.status, { recipe_status = a.status, error = a.error })
  elseif #changes > 0 then
    after_settling(i, e, header, looks)
  end
end

local function is_same()
  local stored = redis.call('HMGET', key, 'recipe', 'correlation', 'parent', 'blueprint')
  return stored[1] == a.recipe and stored[2] == a.correlation and (stored[3] or '') == a.parent and
    (not stored[4] or stored[4] == a.blueprint)
end

local function advance(header)
  local engine, damaged = record_of(Recipe)
  if damaged then return reply('unreadable') end
  local ends = header.status ~= a.status and ExecutionTerminal[a.status]
  -- How it is to end is decided, where an end waits for what runs.
  if not leads(ExecutionMoves, header.status, a.status) or (ends and header.intent) then
    return reply('moved_on', { stored = header.status, given = a.status })
  end
  if is_other(Key.params(i, e), Recipe, a.input) then return reply('recorded', { payload = 'initial_params' }) end
  local changes, refused = changes_to(header.status)
  if refused then return refused end
  local counts = engine or tonumber(redis.call('HGET', key, 'in_flight')) == a.in_flight
  local unchanged = #changes == 0 and header.status == a.status and counts
  if unchanged and not a.token then return reply('saved') end
  if is_fenced(changes, ends) then return reply('lease_lost') end
  if unchanged then return reply('saved') end
  if engine then
    refused = trespass(changes, header, ends)
    if refused then return refused end
    advance_engine(header, changes, ends)
  else
    write_header(header.status)
    for _, given in ipairs(changes) do write_capability(given) end
  end
  redis.call('HSET', key, 'saved', a.nonce)
  publish(a.cap)
  return reply('saved')
end

local found = redis.call('HMGET', key, 'nonce', 'saved')
if redis.call('EXISTS', key) == 0 then
  if redis.call('EXISTS', Key.tombstone(i, e)) == 1 then return reply('deleted') end
  if a.token then return reply('lease_lost') end
  insert()
  publish(a.cap)
  return reply('saved')
end
if found[1] == a.nonce or found[2] == a.nonce then return reply('saved') end
if a.insert then return reply('exists') end
local header = header_of(i, e)
if not header then return reply('unreadable') end
if not is_same() then return reply('exists') end
return advance(header)
