-- Mark a claimed invocation as started: from here on, only evidence says that it did not happen.
--
-- uses      _now _event _ticket _route _request _settle
-- args      life, request, session, instance, execution, capability, token, cap
--           on_timeout: {timeout, delay} in ms, what follows if the attempt overruns
-- returns   "started"; "cancelled": the execution is being ended, so it must not start; "lease_lost"; "superseded"; "closed"

local done = seen(a)
if done then return done end
local record = load(a.instance, a.execution, a.capability)
if not holds(record, a.token) then return answer(a, { answer = 'lease_lost' }) end
local header = header_of(a.instance, a.execution)
if not header then return answer(a, { answer = 'lease_lost' }) end
if header.intent then
  withdraw(a.instance, a.execution, header, a.capability, record)
  publish(a.cap)
  return answer(a, { answer = 'cancelled' })
end
if record.status == Capability.ready then become(record, Capability.running) end
record.invocation, record.started_at, record.on_timeout = Invocation.started, now, a.on_timeout
save(a.instance, a.execution, a.capability, record)
emit(a.instance, a.execution, Invocation.started, a.capability, { attempt = record.attempt, token = record.token })
publish(a.cap)
return answer(a, { answer = 'started' })
