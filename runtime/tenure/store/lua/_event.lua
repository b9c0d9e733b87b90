-- Events of one execution: emitted while a script works, written once at its end.
--
-- `emit` collects; `publish` numbers, appends, caps and notifies. A script may touch several executions.
local emitted, order = {}, {}

local function emit(instance, execution, kind, capability, fields)
  local id = instance .. '/' .. execution
  if not emitted[id] then
    emitted[id] = { instance = instance, execution = execution, events = {} }
    order[#order + 1] = id
  end
  local event = fields or {}
  event.kind, event.capability, event.at = kind, capability, now
  local events = emitted[id].events
  events[#events + 1] = event
end

local function publish(cap)
  for _, id in ipairs(order) do
    local batch = emitted[id]
    local header = Key.execution(batch.instance, batch.execution)
    local last = redis.call('HINCRBY', header, 'events', #batch.events)
    local packed = {}
    for n, event in ipairs(batch.events) do
      event.seq = last - #batch.events + n
      packed[n] = cmsgpack.pack(event)
    end
    local list = Key.events(batch.instance, batch.execution)
    redis.call('RPUSH', list, unpack(packed))
    if last > cap then redis.call('LTRIM', list, -cap, -1) end
    redis.call('XADD', Key.feed(), 'MAXLEN', '~', 10000, '*', 'execution', id, 'seq', last)
  end
end
