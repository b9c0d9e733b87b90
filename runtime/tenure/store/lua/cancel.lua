-- Cancel an execution: record the intent, then act on it (G9). The first reason stays.
--
-- flags     allow-oom
-- uses      _now _event _ticket _route _settle
-- args      instance, execution, reason: text, nonce: of this request, cap
-- returns   "cancelled": it has ended; "requested": what runs was asked to stop; "unknown": a `once` task whose
--           outcome nobody knows stands in the way; "already_terminal" with status; "not_found"
--           "unreadable_header" with schema, if it is another one: nothing was changed

local key = Key.execution(a.instance, a.execution)
local header, unreadable = header_of(a.instance, a.execution)
if unreadable then return reply('unreadable_header', unreadable) end
if not header then return reply('not_found') end
if ExecutionTerminal[header.status] then
  if redis.call('HGET', key, 'cancel') == a.nonce then return reply('cancelled') end
  return reply('already_terminal', { status = header.status })
end
if not header.intent then redis.call('HSET', key, 'cancel', a.nonce) end
local ended = intend(a.instance, a.execution, header, Execution.cancelled,
  { recipe_status = Capability.cancelled, error = a.reason })
publish(a.cap)
if ended then return reply('cancelled') end
for _, capability in ipairs(redis.call('SMEMBERS', Key.in_flight(a.instance, a.execution))) do
  local record = load(a.instance, a.execution, capability)
  if record and record.where == Where.unknown then return reply('unknown', { capability = capability }) end
end
return reply('requested')
