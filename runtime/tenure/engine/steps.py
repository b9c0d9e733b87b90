"""The line between a live frame and the store: one result in hand, and the step that records it.

A result goes on in hand while the recipe's own code runs, and the next step records it. Another thread may
record it first, when that takes long; so everything here happens under one lock, and a frame that the other
thread found void ends at the recipe's next call.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Mapping, Sequence
from typing import Any, NoReturn

from tenure.engine.bench import Bench
from tenure.engine.handoff import HandoffEvent
from tenure.engine.presence import Phase
from tenure.engine.signals import ControlSignal, Leave, Next, Stop
from tenure.errors import LeaseLost, StoreUnreachable, Unconfirmed
from tenure.model.status import CapabilityStatus, InvocationOutcome
from tenure.store.answers import StepAnswer
from tenure.store.grants import Grant, StepReply

log = logging.getLogger(__name__)

#: The longest a result in hand waits for the recipe's own code.
IN_HAND_SECONDS = 0.050

OWNERSHIP_LOST = (LeaseLost, Unconfirmed, StoreUnreachable)


class Steps:
    """The steps of one frame, which began under the recipe lease `grant`."""

    def __init__(self, bench: Bench, grant: Grant) -> None:
        self._bench = bench
        self._grant = grant
        self._token = grant.token
        self._lock = threading.RLock()
        self._in_hand: dict[str, Any] | None = None
        self._in_hand_since = 0.0
        self._values: list[dict[str, Any]] = []
        #: How many calls the frame has made; recorded with each step.
        self.ordinals = 0
        #: The signal that ended the frame, once one has.
        self.over: ControlSignal | None = None

    def check_live(self) -> None:
        """Raise the signal that ended this frame, if one has."""
        # A recipe that swallowed the signal gets it again at its next call.
        if self.over is not None:
            raise self.over

    def count_call(self) -> int:
        """The ordinal of the call that the recipe makes now."""
        self.ordinals += 1
        return self.ordinals - 1

    def take(self, recipe: Mapping[str, Any], *, claim: bool = False) -> StepReply:
        """Record what is in hand and let the recipe go on, in one script.

        Raises:
            Leave: the frame is void. Stop: this slot cannot know whether it is.
        """
        with self._lock:
            self.check_live()
            try:
                reply = self._bench.leases.step(
                    instance=self._grant.instance,
                    execution=self._grant.execution,
                    settle=self._in_hand,
                    recipe={"frame": self._grant.token, "token": self._token, **recipe},
                    values=self._values,
                    ordinals=self.ordinals,
                    claim=claim,
                )
            except OWNERSHIP_LOST as error:
                self.end_for(error)
            self._in_hand, self._values = None, []
            if reply.answer is not StepAnswer.STEPPED:
                self.leave(Next(reply.grant, asked=claim))
            if reply.recipe_token is not None:
                self._token = reply.recipe_token
                self._bench.presence.show(Phase.RECIPE, [(self._grant.route, self._token, True)])
            return reply

    def suspend(self, recipe: Mapping[str, Any], *, handoff: HandoffEvent | None = None) -> NoReturn:
        """Let the recipe wait, and leave. `handoff` is reported once the store has acknowledged it."""
        # Not with a handoff: whoever is told of one may want to stop, and should hold nothing then.
        claim = handoff is None and self._bench.takes_more
        asked = {"action": "suspend", **recipe}
        if handoff is not None:
            asked["handoff"] = handoff.arguments()
        reply = self.take(asked, claim=claim)
        if handoff is not None and reply.published:
            self._bench.admission.report(handoff)
        lacks = handoff is not None and bool(handoff.mismatches)
        self.leave(Next(reply.grant, asked=claim, handed_off=lacks))

    def finish(self, recipe: Mapping[str, Any]) -> Next:
        """The recipe has come to an end of some kind; says what the slot does next."""
        claim = self._bench.takes_more
        try:
            reply = self.take(recipe, claim=claim)
        except Leave as leave:
            return leave.then
        return Next(reply.grant, asked=claim)

    def leave(self, then: Next) -> NoReturn:
        """End the frame."""
        self.over = Leave(then)
        raise self.over

    def end_for(self, error: Exception) -> NoReturn:
        """End the frame because it lost its lease, or because nobody can know whether it did (G16)."""
        if not isinstance(error, LeaseLost):
            self.over = Stop(error)
            raise self.over from error
        log.warning("%s", error, extra={"execution": self._grant.execution, "token": self._token})
        self.leave(Next())

    def keep_in_hand(self, lease: Grant, status: CapabilityStatus, fields: Mapping[str, Any]) -> None:
        """A task run in place has an outcome; the next step records it."""
        with self._lock:
            self._in_hand = {
                "capability": lease.capability,
                "token": lease.token,
                "status": status.value,
                "outcome": InvocationOutcome(status.value).value,
                **fields,
            }
            self._in_hand_since = time.monotonic()
            self._bench.presence.show(Phase.RECIPE, [(lease.route, lease.token, True)])

    def keep_value(self, value: dict[str, Any]) -> None:
        """A value of the frame's own; the next step records it."""
        # Not while another thread records a result: that step takes the values it was sent for all there are.
        with self._lock:
            self._values.append(value)

    def hold(self) -> None:
        """Record what is in hand now, and go on under the recipe lease."""
        self.take({"action": "hold"})

    def commit_overdue(self) -> None:
        """Record a result that has waited too long for the recipe's own code. Called by another thread."""
        with self._lock:
            overdue = time.monotonic() - self._in_hand_since >= IN_HAND_SECONDS / 2
            if self._in_hand is None or not overdue or self.over is not None:
                return
            try:
                self.hold()
            except ControlSignal as signal:
                # The recipe's thread meets it at its next call, or when it returns.
                self.over = signal

    def write_params(self, params: Sequence[Any]) -> None:
        """Write a chunk of a map's parameters; needs the recipe lease, so `hold` first."""
        try:
            self._bench.leases.write_params(
                instance=self._grant.instance,
                execution=self._grant.execution,
                token=self._token,
                params=params,
            )
        except OWNERSHIP_LOST as error:
            self.end_for(error)
