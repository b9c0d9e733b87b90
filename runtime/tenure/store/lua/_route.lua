-- Routes: their records, and the indexes of G19. Every move between indexes goes through `move`.
--
-- A record names the index its route is in (`where`, `queue`), so a lost index entry can be put back.

local BAND = 2199023255552 -- 2^41 ms: a priority band is wider than any ready time

local function member(instance, execution, capability)
  return instance .. '/' .. execution .. '/' .. capability
end

local function split(route)
  return string.match(route, '^([^/]*)/([^/]*)/(.*)$')
end

-- A table that was stored packed, or nil if its bytes cannot be read: they are kept, and nothing acts on them.
local function readable(raw)
  if type(raw) ~= 'string' then return nil end
  local ok, value = pcall(cmsgpack.unpack, raw)
  return ok and type(value) == 'table' and value or nil
end

local function load(instance, execution, capability)
  local record = readable(redis.pcall('HGET', Key.records(instance, execution), capability))
  return record and record.status and record or nil
end

-- What every step needs of the header. If it cannot be read, nil, and with it its schema where that is another
-- one. Only an execution without any header is gone: nothing else may be dropped from an index (G17).
local function header_of(instance, execution)
  local key = Key.execution(instance, execution)
  local h = redis.pcall('HMGET', key, 'status', 'recipe', 'version', 'band', 'intent', 'schema', 'deadline')
  if h.err or not h[1] or h[6] ~= Schema then
    if redis.call('EXISTS', key) == 0 then return nil end
    return nil, { schema = not h.err and h[6] ~= Schema and h[6] or nil }
  end
  return { status = h[1], recipe = h[2], version = h[3], band = tonumber(h[4]), intent = h[5] or nil,
    deadline = h[7] and tonumber(h[7]) or nil }
end

local function save(instance, execution, capability, record)
  redis.call('HSET', Key.records(instance, execution), capability, cmsgpack.pack(record))
end

local function index(where, queue)
  if where == Where.waiting then return Key.waiting(queue) end
  return Key[where]()
end

-- The one way a capability's status changes: through the model's table of moves.
local function become(record, status)
  if not CapabilityMoves[record.status][status] then
    error('a capability cannot go from ' .. record.status .. ' to ' .. status)
  end
  record.status = status
end

local function leave(route, record)
  if record.where then redis.call('ZREM', index(record.where, record.queue), route) end
  if record.where == Where.environment then redis.call('SREM', Key.unplaced(), route) end
  record.where, record.queue = nil, nil
end

local function move(route, record, where, score, queue)
  if record.where ~= where or record.queue ~= queue then leave(route, record) end
  record.where, record.queue, record.since = where, queue, now
  record.due_at = where == Where.due and score or nil
  redis.call('ZADD', index(where, queue), score, route)
end

-- Whether an execution is one for processes of another schema: they act on it where it is.
local function is_of_others(instance, execution)
  local _, unreadable = header_of(instance, execution)
  return unreadable ~= nil and unreadable.schema ~= nil
end

-- An index entry that is not true any more is dropped; one whose route cannot be read is set aside, so that it
-- stops nobody else (G17). Index repair puts it back once it can be read.
local function set_aside(key, route)
  redis.call('ZREM', key, route)
  local instance, execution, capability = split(route)
  if not instance or (load(instance, execution, capability) and header_of(instance, execution)) then return false end
  if redis.call('EXISTS', Key.records(instance, execution)) == 0 then return false end
  redis.call('ZADD', Key.blocked(), now, route)
  return true
end

local function holds(record, token)
  return record ~= nil and record.where == Where.leased and record.token == token
end

-- Tokens only grow, over a failover too, as long as primaries' clocks agree within it.
local function grant(route, record, holder)
  record.token = math.max((record.token or 0) + 1, now_us)
  record.life, record.session, record.generation = holder.life, holder.session, holder.generation
  record.run, record.leased_queue = holder.run, holder.queue
  move(route, record, Where.leased, now + holder.lease)
  redis.call('SADD', Key.life_routes(holder.life), route)
  redis.call('PEXPIRE', Key.life_routes(holder.life), 86400000)
  redis.call('SREM', Key.queue_idle(holder.queue), holder.life)
end

-- End a lease: whoever held it can change nothing any more (G2).
local function release(route, record)
  if record.life then redis.call('SREM', Key.life_routes(record.life), route) end
  record.life, record.session, record.generation, record.run = nil, nil, nil, nil
end

-- Among the queues that can admit the route and have not handed it off: idle slots first, then the tighter fit,
-- then the shorter backlog.
local function choose(record)
  local best
  for _, candidate in ipairs(record.candidates or {}) do
    local queue, rank = candidate[1], candidate[2]
    if not (record.avoid and record.avoid[queue]) and redis.call('SCARD', Key.queue_sessions(queue)) > 0 then
      local backlog = redis.call('ZCARD', Key.waiting(queue))
      local busy = redis.call('SCARD', Key.queue_idle(queue)) > backlog and 0 or 1
      local better = not best or busy < best.busy or (busy == best.busy and (rank < best.rank or
        (rank == best.rank and backlog < best.backlog)))
      if better then best = { queue = queue, busy = busy, rank = rank, backlog = backlog } end
    end
  end
  return best and best.queue
end

-- Publish a demand, if it is another one than before: the next revision of it.
local function publish_demand(record, demand)
  if not demand or record.demand == demand then return end
  -- Nobody has placed it by a demand that is its first.
  if not record.demand then record.candidates = nil end
  record.demand, record.revision = demand, (record.revision or 0) + 1
end

-- Leave a route where nobody can admit it, for as long as the session registry stays as it is.
local function park(route, record)
  move(route, record, Where.environment, now)
end

-- Put a ready route where it can run: into a queue with its ticket, or among those nobody can admit.
local function dispatch(instance, execution, capability, record)
  local route = member(instance, execution, capability)
  local queue = choose(record)
  release(route, record)
  record.ready_at = record.ready_at or now
  if queue then
    move(route, record, Where.waiting, record.band * BAND + record.ready_at, queue)
    record.ticket = write_ticket(queue, route, title(record))
  else
    park(route, record)
    redis.call('SADD', Key.unplaced(), route)
    redis.call('LPUSH', Key.nudge(), 1)
    redis.call('LTRIM', Key.nudge(), 0, 0)
  end
  save(instance, execution, capability, record)
end
