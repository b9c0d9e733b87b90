-- Mark a claimed invocation as started: from here on, only evidence says that it did not happen.
--
-- uses      _now _event _ticket _route _request
-- args      life, request, session, instance, execution, capability, token, cap
-- returns   "started"; "lease_lost"; "superseded"; "closed"

local done = seen(a)
if done then return done end
local record = load(a.instance, a.execution, a.capability)
if not holds(record, a.token) then return answer(a, { answer = 'lease_lost' }) end
if record.status == Capability.ready then become(record, Capability.running) end
record.invocation, record.started_at = Invocation.started, now
save(a.instance, a.execution, a.capability, record)
emit(a.instance, a.execution, Invocation.started, a.capability, { attempt = record.attempt, token = record.token })
publish(a.cap)
return answer(a, { answer = 'started' })
