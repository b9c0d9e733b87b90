"""What a slot asks of the store: claim, start, step, retry, give back. Each call is one atomic script.

Requests are numbered per slot life. A resend gets its first answer; once the agent has abandoned the life,
every request of it is refused, also one that was still on its way.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Mapping, Sequence
from typing import Any

from tenure.errors import LeaseLost, StoreFull, Unconfirmed
from tenure.store.answers import (
    ClaimAnswer,
    MarkStartedAnswer,
    ReportAnswer,
    RescheduleAnswer,
    RetryAnswer,
    StepAnswer,
    WriteParamsAnswer,
)
from tenure.store.grants import Grant, Holder, StepReply
from tenure.store.keys import RECIPE
from tenure.store.scripts import Scripts

log = logging.getLogger(__name__)

#: How long a slot waits before it asks a full server again.
FULL_SECONDS = 0.5


class SlotLeases:
    """The calls of one slot life. Threads of the slot may share it; requests stay in order."""

    def __init__(self, scripts: Scripts, holder: Holder, *, events_kept: int) -> None:
        self._scripts = scripts
        self._cap = events_kept
        self._order = threading.Lock()
        self._request = 0
        self.holder = holder
        #: The RQ job this slot is running; grants rewrite its title.
        self.ticket: str | None = None

    def claim(self, *, popped: bool = False, target: str | None = None) -> Grant | None:
        """Claim the best waiting route of the slot's queue, or else of another that fits here.

        `popped`: a ticket has just woken the slot.

        `target` claims by name instead, wherever it waits and whatever it needs: a route, or for
        `instance/execution/recipe` whichever route of the execution can be acted on.
        """
        reply = self._ordered("claim", {"popped": popped or None, "target": target})
        return Grant.from_reply(reply["grant"]) if reply["answer"] is ClaimAnswer.GRANTED else None

    def mark_started(self, grant: Grant, *, on_timeout: Mapping[str, int] | None = None) -> bool:
        """Say that user code starts now; False if the execution is being cancelled, and it must not.

        `on_timeout` is what follows if the attempt overruns: {timeout, delay} in ms; no delay, no retry.

        Raises:
            LeaseLost: the route is somebody else's; user code must not run.
        """
        reply = self._ordered("mark_started", {**_route(grant), "on_timeout": on_timeout})
        if reply["answer"] is MarkStartedAnswer.LEASE_LOST:
            raise _lost(grant)
        return reply["answer"] is MarkStartedAnswer.STARTED

    def step(
        self,
        *,
        instance: str,
        execution: str,
        settle: Mapping[str, Any] | None = None,
        recipe: Mapping[str, Any] | None = None,
        values: Sequence[Mapping[str, Any]] = (),
        ordinals: int | None = None,
        claim: bool = False,
    ) -> StepReply:
        """Settle what ran, let the recipe go on, take what comes next (`step.lua`).

        Raises:
            LeaseLost: nothing was changed; what ran has another owner, or the execution has ended.
        """
        reply = self._ordered(
            "step",
            {
                "instance": instance,
                "execution": execution,
                "settle": settle,
                "recipe": recipe,
                "values": list(values),
                "ordinals": ordinals,
                "claim": claim or None,
            },
        )
        if reply["answer"] is StepAnswer.LEASE_LOST:
            subject = settle["capability"] if settle else RECIPE
            raise LeaseLost(
                f"execution {execution}: the lease on {subject} is lost; its result was not recorded"
            )
        return StepReply.from_reply(reply)

    def retry(
        self,
        grant: Grant,
        *,
        error: str,
        error_type: str,
        delay_ms: int,
        in_place_ms: int,
        on_timeout: Mapping[str, int] | None = None,
        claim: bool,
    ) -> tuple[bool, Grant | None]:
        """Record a failed attempt. Says whether to run the next one in place, and what else was claimed.

        Raises:
            LeaseLost: the attempt was not recorded; the route is somebody else's.
        """
        reply = self._ordered(
            "retry",
            {
                **_route(grant),
                "error": error,
                "error_type": error_type,
                "delay": delay_ms,
                "in_place": in_place_ms,
                "on_timeout": on_timeout,
                "claim": claim or None,
            },
        )
        if reply["answer"] is RetryAnswer.LEASE_LOST:
            raise _lost(grant)
        other = reply.get("grant")
        return reply["answer"] is RetryAnswer.IN_PLACE, Grant.from_reply(other) if other else None

    def reschedule(
        self,
        grant: Grant,
        *,
        reason: str,
        avoid: bool = False,
        block: str | None = None,
        mismatches: Sequence[str] = (),
        handoff: Mapping[str, Any] | None = None,
        demand: str | None = None,
    ) -> str:
        """Give a route back untouched; returns the index it is in now.

        `avoid`: do not offer it to this queue again while its demand is this one. `block`: stop it where it
        is, for this reason. `handoff`: what is told of the slot that could not take it, and with `demand`,
        which is then published for the first time, its event.

        Raises:
            LeaseLost: it was not ours to give, or user code had started.
        """
        reply = self._ordered(
            "reschedule",
            {
                **_route(grant),
                "reason": reason,
                "avoid": avoid or None,
                "block": block,
                "mismatches": list(mismatches),
                "handoff": handoff,
                "demand": demand,
            },
        )
        if reply["answer"] is RescheduleAnswer.LEASE_LOST:
            raise _lost(grant)
        return str(reply.get("where", "cancelled"))

    def write_params(self, *, instance: str, execution: str, token: int, params: Sequence[Any]) -> None:
        """Write a chunk of a map's parameters: capability, bytes, capability, bytes, ...

        Raises:
            LeaseLost: the recipe lease is somebody else's.
        """
        reply = self._when_there_is_room(
            "write_params",
            {"instance": instance, "execution": execution, "token": token, "params": list(params)},
        )
        if reply["answer"] is WriteParamsAnswer.LEASE_LOST:
            raise LeaseLost(f"execution {execution}: the recipe lease is lost")

    def report(self, grant: Grant, *, progress: Sequence[Any] | None = None, message: str = "") -> None:
        """Record progress (done, total, message) or a line of log.

        Raises:
            LeaseLost: the task runs on without a lease; whatever it does is not recorded.
        """
        arguments = {**_route(grant), "progress": list(progress) if progress else None, "message": message}
        if self._ordered("report", arguments)["answer"] is ReportAnswer.LEASE_LOST:
            raise _lost(grant)

    def _ordered(self, name: str, arguments: Mapping[str, Any]) -> dict[str, Any]:
        with self._order:
            self._request += 1
            reply = self._when_there_is_room(
                name,
                {
                    **self.holder.arguments(),
                    **arguments,
                    "cap": self._cap,
                    "ticket": self.ticket,
                    "request": self._request,
                },
            )
        if reply["answer"] in (ClaimAnswer.CLOSED, ClaimAnswer.SUPERSEDED):
            raise Unconfirmed(f"slot life {self.holder.life} was abandoned by its agent; nothing was changed")
        return reply

    def _when_there_is_room(self, name: str, arguments: Mapping[str, Any]) -> dict[str, Any]:
        # A full server refuses whole scripts and the agent keeps the leases: waiting loses nothing.
        while True:
            try:
                return self._scripts.call(name, arguments)
            except StoreFull as error:
                log.warning(
                    "slot %s waits: %s", self.holder.life, error, extra={"session": self.holder.session}
                )
                time.sleep(FULL_SECONDS)


def _route(grant: Grant) -> dict[str, Any]:
    return {
        "instance": grant.instance,
        "execution": grant.execution,
        "capability": grant.capability,
        "token": grant.token,
    }


def _lost(grant: Grant) -> LeaseLost:
    return LeaseLost(
        f"execution {grant.execution}: the lease on {grant.capability} (token {grant.token}) is lost; "
        "whoever took it over goes on, nothing of this attempt was recorded"
    )
