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
from tenure.model.needs import NO_NEEDS, Needs, overlay
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

    @property
    def directive(self) -> str | None:
        """What `suspend` has asked for, as it is stored; None if nothing."""
        return None if self._requires.is_empty else write_needs(self._requires)

    def suspend(self, needs: Needs) -> None:
        """Require `needs` of the whole execution from the end of this task on.

        The task goes on. When it has returned and its result is recorded, the execution is yielded, also if
        this slot would do, and goes on where the new requirements are met. They win over what recipe, scopes
        and tasks declare, and stay. Several calls in one task add up, the later winning. If the task fails,
        nothing is required.

        Raises:
            InvalidInput: `needs` is no Needs, or an empty one.
        """
        self._requires = overlay(self._requires, _required(needs))

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


def _required(needs: object) -> Needs:
    if isinstance(needs, Needs) and not needs.is_empty:
        return needs
    raise InvalidInput(
        f"ctx.suspend({needs!r}): say what the execution needs from here on, as in "
        'ctx.suspend(Needs(memory="64Gi"))'
    )


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
