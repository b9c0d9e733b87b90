"""What a running task can see and say."""

from __future__ import annotations

import logging
import time
from collections.abc import Sequence
from typing import Any

from tenure.engine.presence import Presence
from tenure.engine.signals import Withdraw
from tenure.errors import InvalidInput, LeaseLost, StoreUnreachable, Unconfirmed
from tenure.model.demand import write_needs
from tenure.model.needs import NO_NEEDS, Needs, needs_of, overlay
from tenure.store.grants import Grant
from tenure.store.leases import SlotLeases

log = logging.getLogger("tenure.task")

#: Progress is written at most this often, and always when it is complete.
PROGRESS_SECONDS = 0.2


class TaskContext:
    """Given to a task that has a parameter annotated `TaskContext`, or named `ctx`."""

    def __init__(self, grant: Grant, leases: SlotLeases, presence: Presence) -> None:
        self._grant = grant
        self._leases = leases
        self._presence = presence
        self._last_report = 0.0
        self._requires = NO_NEEDS
        self._has_ended = False
        #: What a report of this task met that ended its ownership; an error of the user's own is not one.
        self.lost: LeaseLost | Unconfirmed | StoreUnreachable | None = None

    @property
    def execution_id(self) -> str:
        """The execution this task belongs to."""
        return self._grant.execution

    @property
    def attempt(self) -> int:
        """Counts from 1; lost attempts count too."""
        return self._grant.attempt

    @property
    def fencing_token(self) -> int:
        """Grows with every lease on this task call; an outside store can refuse smaller ones (G2)."""
        return self._grant.token

    @property
    def idempotency_key(self) -> str:
        """The same for every attempt of this task call, and for no other."""
        return f"{self._grant.instance}:{self._grant.execution}:{self._grant.capability}"

    @property
    def cancelled(self) -> bool:
        """Whether this task was asked to stop. One that goes on is stopped after the grace period."""
        return self._presence.cancelled(self._grant.token)

    def check_cancelled(self) -> None:
        """End this task if it was asked to stop: it is then cancelled, not failed (G14).

        Raises a control signal, which passes through `except Exception`.
        """
        if self.cancelled:
            raise Withdraw(f"{self._grant.capability} stopped when it was asked to")

    def suspend(self, needs: Needs | None = None, /, **properties: Any) -> None:
        """Require other needs of the whole execution from the end of this task on.

        They are given as `Needs(...)` or by their properties: `ctx.suspend(memory="64Gi")`.

        The task goes on. When it has returned and its result is recorded, the execution is yielded, also if
        this slot would do, and goes on where the new requirements are met. They win over what recipe, scopes
        and tasks declare, and stay. Several calls in one task add up, the later winning. If the task fails,
        nothing is required.

        Raises:
            InvalidInput: they cannot be read, there are none, or the task has ended.
        """
        asked = needs_of(needs, properties, where="ctx.suspend")
        if asked.is_empty:
            raise InvalidInput("ctx.suspend asks for nothing; say what is needed, as in memory='64Gi'")
        if self._has_ended:
            raise InvalidInput(
                f"execution {self._grant.execution}: {self._grant.capability} has ended, and nobody would "
                "hear of what ctx.suspend asks for now; call it before the task returns"
            )
        self._requires = overlay(self._requires, asked)

    def end(self) -> str | None:
        """The task has ended; what it requires of the job, as it is stored, or None."""
        self._has_ended = True
        return None if self._requires.is_empty else write_needs(self._requires)

    def progress(self, done: float, total: float | None = None, message: str = "") -> None:
        """Say how far the task is. Frequent calls are thinned out; a full one is always written.

        Raises:
            LeaseLost: somebody else has taken the task over; stop.
        """
        self._presence.show_progress(f"{done:g}" + (f"/{total:g}" if total else "") + f" {message}".rstrip())
        complete = total is not None and done >= total
        if complete or time.monotonic() - self._last_report >= PROGRESS_SECONDS:
            self._last_report = time.monotonic()
            self._report(progress=(done, total, storable(message)))

    def log(self, message: str) -> None:
        """Record a line among the execution's events, and log it.

        Raises:
            LeaseLost: somebody else has taken the task over; stop.
        """
        text = storable(message)
        log.info("%s", text, extra=log_fields(self._grant))
        self._report(message=text)

    def _report(self, progress: Sequence[Any] | None = None, message: str = "") -> None:
        try:
            self._leases.report(self._grant, progress=progress, message=message)
        except (LeaseLost, Unconfirmed, StoreUnreachable) as error:
            self.lost = error
            raise


def storable(text: str) -> str:
    """The text with lone surrogates spelled out: file names have them, and no encoding does."""
    return text.encode("utf-8", "backslashreplace").decode()


def log_fields(grant: Grant) -> dict[str, object]:
    """The stable keys that log records of a lease carry."""
    return {
        "execution": grant.execution,
        "capability": grant.capability,
        "attempt": grant.attempt,
        "token": grant.token,
    }
