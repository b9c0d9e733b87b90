-- Record a failed attempt that is to be followed by another one.
--
-- A short wait keeps the lease: the slot runs the next attempt in place. A longer one waits in the due index
-- and costs no worker anything.
--
-- uses      _now _event _ticket _route _request _settle _grant
-- args      life, request, session, generation, queue, run, lease: ms, cap, ticket, claim: take other work then
--           instance, execution, capability, token, error, error_type, delay: ms, in_place: ms still run in place
--           on_timeout: as in mark_started, for the next attempt
-- returns   "in_place"; "due" with maybe a grant; "cancelled" with maybe a grant: it is being ended; "lease_lost"; "superseded"; "closed"

local done = seen(a)
if done then return done end
local record = load(a.instance, a.execution, a.capability)
local header = header_of(a.instance, a.execution)
if not header or not holds(record, a.token) then return answer(a, { answer = 'lease_lost' }) end

redis.call('RPUSH', Key.attempts(a.instance, a.execution), cmsgpack.pack({
  capability = a.capability, attempt = record.attempt, started_at = record.started_at, ended_at = now,
  outcome = Outcome.failed, cause = a.error, session = record.session, life = record.life, token = record.token,
}))
emit(a.instance, a.execution, 'retry', a.capability, { attempt = record.attempt, error = a.error, delay = a.delay })
if header.intent then
  withdraw(a.instance, a.execution, header, a.capability, record)
  local granted = a.claim and claim_or_rest(a, false) or nil
  publish(a.cap)
  return answer(a, { answer = 'cancelled', grant = granted })
end
record.attempt, record.failures = record.attempt + 1, record.failures + 1
if a.delay <= a.in_place then
  record.started_at, record.on_timeout = now, a.on_timeout
  save(a.instance, a.execution, a.capability, record)
  publish(a.cap)
  return answer(a, { answer = 'in_place' })
end
local route = member(a.instance, a.execution, a.capability)
release(route, record)
record.invocation, record.ready_at = Invocation.dispatching, nil
move(route, record, Where.due, now + a.delay)
save(a.instance, a.execution, a.capability, record)
local granted = a.claim and claim_or_rest(a, false) or nil
publish(a.cap)
return answer(a, { answer = 'due', grant = granted })
