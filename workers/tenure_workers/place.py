"""A place for a slot in an agent: the process in it now, the life it has, and when the next one may begin."""

from __future__ import annotations

import contextlib
import json
import logging
import time
from dataclasses import dataclass
from typing import Any, Final

from tenure.engine.presence import Phase
from tenure.store.keys import RECIPE
from tenure_workers.children import SlotProcess
from tenure_workers.death import UNCONFIRMED_EXIT
from tenure_workers.page import Shown

log = logging.getLogger(__name__)

_QUICK_SECONDS: Final = 1.0
_FIRST_DELAY_SECONDS: Final = 0.25
_LONGEST_DELAY_SECONDS: Final = 5.0


@dataclass(frozen=True, slots=True)
class Life:
    """What the store knows a slot by, and where it works."""

    id: str
    worker: str
    queue: str


@dataclass(frozen=True, slots=True)
class Death:
    """How a slot ended. `charge` says to whom a crash counts; None for what its agent did."""

    life: Life | None
    cause: str
    charge: str | None
    report: dict[str, Any] | None


class Place:
    """One of an agent's places. For its main thread."""

    def __init__(self, number: int) -> None:
        self.number = number
        self.process: SlotProcess | None = None
        self.life: Life | None = None
        #: The slot's report before its life began: `{"catalogue": ...}` or `{"error": ...}`.
        self.report: dict[str, Any] | None = None
        self.due_at = 0.0
        self._stopped_because: str | None = None
        self._stop_charge: str | None = None
        self._cancel: tuple[int, float] | None = None
        self._began_at = 0.0
        self.quick_deaths = 0
        self._received = b""

    def occupy(self, process: SlotProcess) -> None:
        """A process was started for this place."""
        self.process = process
        self.life = self.report = self._stopped_because = self._stop_charge = self._cancel = None
        self._began_at = time.monotonic()
        self._received = b""

    def begin(self, life: Life, message: dict[str, Any]) -> None:
        """Send the go-ahead."""
        self.life = life
        self._began_at = time.monotonic()
        self.send(message)

    def send(self, message: dict[str, Any]) -> None:
        """Send one line to the slot. A slot that has died meanwhile is found out by its death."""
        assert self.process is not None  # noqa: S101  # only for a place that is occupied
        with contextlib.suppress(BrokenPipeError, ConnectionResetError):
            self.process.control.sendall(json.dumps(message).encode() + b"\n")

    def receive(self) -> bool:
        """Take the slot's report; says whether it has come just now, and whole."""
        assert self.process is not None  # noqa: S101  # see `send`
        with contextlib.suppress(BlockingIOError, ConnectionResetError):
            while data := self.process.control.recv(65536):
                self._received += data
        line, newline, _ = self._received.partition(b"\n")
        if not newline or self.report is not None:
            return False
        self.report = json.loads(line)
        return True

    def stop(self, because: str, *, charge: str | None = None) -> None:
        """Kill the slot with its group. The first reason stands, and to whom it counts."""
        if self.process is not None:
            if self._stopped_because is None:
                self._stopped_because, self._stop_charge = because, charge
            self.process.kill_group()

    def ask_to_stop(self, route: str, token: int, grace_seconds: float) -> None:
        """Ask the task that is held under this token to stop; `enforce` stops the slot if it does not."""
        if self.process is None or not self._shows(token):
            return
        if self._cancel is None or self._cancel[0] != token:
            log.info("asked %s to stop", route, extra={"token": token})
            self.process.page.request_cancel(token)
            self._cancel = (token, time.monotonic() + grace_seconds)

    def enforce(self) -> None:
        """Stop a slot that overruns a timeout, or ignores a cancellation beyond its grace period."""
        if self.process is None or self.life is None:
            return
        now, shown = time.monotonic(), self.process.page.read()
        if shown.deadline_seconds and now > shown.deadline_seconds:
            self.stop("stopped by its agent: the attempt took longer than its timeout", charge="timeout")
        elif self._cancel is not None and now > self._cancel[1]:
            token, self._cancel = self._cancel[0], None
            if self._shows(token):
                self.stop("stopped by its agent: it was asked to stop, and did not within the grace period")

    def _shows(self, token: int) -> bool:
        assert self.process is not None  # noqa: S101  # see `send`
        return any(held == token for _, held, _ in self.process.page.read().leases)

    def bury(self) -> Death:
        """After the death of its process: clear the place and say what happened."""
        assert self.process is not None  # noqa: S101  # see `send`
        self.receive()
        shown = self.process.page.read()
        code, cause = self.process.bury()
        is_ours = self._stopped_because is not None or code == UNCONFIRMED_EXIT
        death = Death(
            life=self.life,
            cause=self._stopped_because or cause,
            charge=self._stop_charge if is_ours else charge_of(shown),
            report=self.report,
        )
        self._delay(is_ours=self._stopped_because is not None)
        self.process = self.life = self.report = None
        self._stopped_because = self._stop_charge = self._cancel = None
        return death

    def _delay(self, *, is_ours: bool) -> None:
        """Slots that die at once again and again are started less and less often."""
        now = time.monotonic()
        lived = now - self._began_at if self.life is not None else 0.0
        quick = not is_ours and lived < _QUICK_SECONDS
        self.quick_deaths = self.quick_deaths + 1 if quick else 0
        # One such death may be bad luck.
        delay = _FIRST_DELAY_SECONDS * 2 ** (self.quick_deaths - 2) if self.quick_deaths > 1 else 0.0
        self.due_at = now + min(delay, _LONGEST_DELAY_SECONDS)


def charge_of(shown: Shown) -> str | None:
    """To whom a crash counts: the task while its code runs, the recipe while its own does."""
    match shown.phase:
        case Phase.RECIPE:
            return RECIPE
        case Phase.TASK:
            return "task"
        case Phase.IDLE:
            return None
