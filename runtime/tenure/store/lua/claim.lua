-- Claim the best waiting route of a queue for a slot that was idle.
--
-- uses      _now _event _ticket _route _request _grant
-- args      life, request, session, generation, queue, run, lease: ms, cap
--           ticket: the RQ job that runs here    popped: whether it has just left its list to wake this slot
-- returns   "granted" with the grant; "nothing"; "superseded"; "closed"

local done = seen(a)
if done then return done end
local granted = claim_or_rest(a, a.popped)
publish(a.cap)
if not granted then return answer(a, { answer = 'nothing' }) end
return answer(a, { answer = 'granted', grant = granted })
