-- A running task says how far it is, or logs a line.
--
-- uses      _now _event _ticket _route _request
-- args      life, request, session, instance, execution, capability, token, cap
--           progress: {done, total, message}, or message: text
-- returns   "reported"; "lease_lost"; "superseded"; "closed"

local done = seen(a)
if done then return done end
local record = load(a.instance, a.execution, a.capability)
if not holds(record, a.token) then return answer(a, { answer = 'lease_lost' }) end
if a.progress then
  record.progress = a.progress
  save(a.instance, a.execution, a.capability, record)
  emit(a.instance, a.execution, 'progress', a.capability, { progress = a.progress })
else
  emit(a.instance, a.execution, 'log', a.capability, { message = a.message, attempt = record.attempt })
end
publish(a.cap)
return answer(a, { answer = 'reported' })
