-- Give a route back untouched: no attempt, no retry, no crash, no completion (a handoff, or a drain).
--
-- flags     allow-oom
-- uses      _now _event _ticket _route _request _settle _outbox
-- args      life, request, session, instance, execution, capability, token, cap
--           reason: why        avoid: whether this queue is not to be offered the route with this demand again
--           block: stop it where it is instead, for this reason (data that cannot be read)
--           mismatches: list of texts
--           handoff: {reason, allocation, mismatches, event} of a slot that lacks what is needed
--           demand: published with that event, for a route that had none
-- returns   "rescheduled" with where; "cancelled": it is being ended; "lease_lost"; "superseded"; "closed"

local done = seen(a)
if done then return done end
local record = load(a.instance, a.execution, a.capability)
if not holds(record, a.token) or (record.invocation == Invocation.started and a.capability ~= Recipe) then
  return answer(a, { answer = 'lease_lost' })
end
local header = header_of(a.instance, a.execution)
if not header then return answer(a, { answer = 'lease_lost' }) end
if header.intent and a.capability ~= Recipe then
  withdraw(a.instance, a.execution, header, a.capability, record)
  publish(a.cap)
  return answer(a, { answer = 'cancelled' })
end
if a.avoid then
  -- All of them, or a route that nobody here can do would go round. A queue's slots and code never change.
  record.avoid = record.avoid or {}
  record.avoid[record.leased_queue] = true
end
record.invocation = Invocation.dispatching
emit(a.instance, a.execution, 'handoff', a.capability, {
  attempt = record.attempt, reason = a.reason, mismatches = a.handoff and a.handoff.mismatches or a.mismatches,
  allocation = a.handoff and a.handoff.allocation, published = a.demand ~= nil or nil,
  session = record.session, token = record.token,
})
if a.handoff then record.handed_off = a.handoff.allocation end
if a.demand and not record.demand then
  publish_demand(record, a.demand)
  post(a.instance, a.execution, a.handoff.event)
end
if a.block then
  local route = member(a.instance, a.execution, a.capability)
  release(route, record)
  record.error = a.block
  move(route, record, Where.blocked, now)
  save(a.instance, a.execution, a.capability, record)
else
  dispatch(a.instance, a.execution, a.capability, record)
end
publish(a.cap)
return answer(a, { answer = 'rescheduled', where = record.where, queue = record.queue })
