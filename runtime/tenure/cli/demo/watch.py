"""What goes on in the execution, from two sources: its events, and the ledger that its tasks write.

The store says what was claimed, started, completed and lost; the ledger says in which process. A thread
follows the events and wakes whoever waits here, so nothing is looked for at intervals but the ledger's line
of a task that has just been marked started.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Final, TypeVar

from tenure import Handle
from tenure.cli.demo.job import MAP_TASK
from tenure.cli.demo.ledger import ENDED, STARTED, LedgerReader, Line
from tenure.cli.demo.stage import DemoFailed, Stage
from tenure.store.events import Event

log = logging.getLogger(__name__)

T = TypeVar("T")

#: Longer than anything here takes: several leases, and a merge on a slow machine.
PATIENCE_SECONDS: Final = 120.0
_LEDGER_LAG_SECONDS: Final = 0.01


@dataclass(frozen=True, slots=True)
class Progress:
    """How far the map is; `total` is 0 until it is known."""

    done: int
    total: int


class Watch:
    """Follows one execution until it ends. Its methods may be called from any thread."""

    def __init__(self, *, handle: Handle, stage: Stage, ledger: Path, tell: Callable[[Event], None]) -> None:
        self._handle = handle
        self._stage = stage
        self._tell = tell
        self._ledger = LedgerReader(ledger)
        self._changed = threading.Condition()
        self._sessions: dict[tuple[str, int], str] = {}
        self._settled: set[str] = set()
        self._dead: set[int] = set()
        self._total = 0
        self._over: str | None = None
        self._broken: Exception | None = None
        threading.Thread(target=self._follow, name="demo-watch", daemon=True).start()

    # -- what can be seen ------------------------------------------------------------------------------------

    def progress(self) -> Progress:
        """How far the map is."""
        with self._changed:
            done = sum(1 for capability in self._settled if is_map(capability))
            return Progress(done, self._total)

    def map_is_over(self) -> bool:
        """Whether every batch has its result, or there are none."""
        progress = self.progress()
        return self._over is not None or 0 < progress.total <= progress.done

    def running(self) -> list[Line]:
        """The task bodies that have begun and not ended, in processes that live."""
        with self._changed:
            self._ledger.read()
            return [line for line in self._open() if line.pid not in self._dead]

    def session(self, run: Line) -> str | None:
        """The agent that was granted a run, once its event has come."""
        return self._sessions.get((run.capability, run.token))

    def left_open(self, pids: Iterable[int]) -> list[Line]:
        """What these processes were in the middle of when they died."""
        killed = set(pids)
        with self._changed:
            self._dead |= killed
            self._ledger.read()
            return [line for line in self._open() if line.pid in killed]

    def started_again(self, lost: Line) -> Line | None:
        """The next run of what was lost, once there is one."""
        with self._changed:
            self._ledger.read()
            again = (line for line in self._ledger.lines if line.what == STARTED and line.key == lost.key)
            return next((line for line in again if line.token > lost.token), None)

    def lines(self) -> list[Line]:
        """The whole ledger."""
        with self._changed:
            self._ledger.read()
            return list(self._ledger.lines)

    # -- waiting ---------------------------------------------------------------------------------------------

    def until(self, seen: Callable[[], T | None], what: str) -> T:
        """Wait until `seen` sees something.

        Raises:
            DemoFailed: a process is missing, or it takes too long; `what` says what did not happen.
        """
        deadline = time.monotonic() + PATIENCE_SECONDS
        with self._changed:
            while True:
                value = seen()
                if value is not None:
                    return value
                self._stage.check()
                if self._broken is not None:
                    raise DemoFailed(f"the events cannot be followed: {self._broken}") from self._broken
                if time.monotonic() > deadline:
                    raise DemoFailed(f"not within {PATIENCE_SECONDS:g} s: {what}\n{self._handle.explain()}")
                self._changed.wait(_LEDGER_LAG_SECONDS)

    def until_over(self) -> str:
        """Wait until the execution has ended; returns the kind of its last event."""
        return self.until(lambda: self._over, "the end of the execution")

    # -- the follower ----------------------------------------------------------------------------------------

    def _follow(self) -> None:
        try:
            for event in self._handle.events(follow=True):
                self._take(event)
                self._tell(event)
        except Exception as error:  # the thread's edge: whoever waits raises it
            log.debug("the demo's watch has ended", exc_info=True)
            self._broken = error

    def _take(self, event: Event) -> None:
        capability = event.capability or ""
        with self._changed:
            if event.kind in ("claimed", "started") and "session" in event.data:
                self._sessions[capability, event.data["token"]] = event.data["session"]
            if event.kind in ("completed", "failed", "cancelled"):
                self._settled.add(capability)
            if event.kind in ("execution_completed", "execution_failed", "execution_cancelled"):
                self._over = event.kind
            if is_map(capability) and not self._total:
                group = self._handle.snapshot().records.get(capability.rpartition(":")[0], {})
                self._total = int(group.get("size", 0))
            self._changed.notify_all()

    def _open(self) -> list[Line]:
        begun = {line.run: line for line in self._ledger.lines if line.what == STARTED}
        ended = {line.run for line in self._ledger.lines if line.what == ENDED}
        newest = {line.key: line.token for line in begun.values()}
        return [line for run, line in begun.items() if run not in ended and newest[line.key] == line.token]


def is_map(capability: str) -> bool:
    """Whether this is one batch of the map: `1:index_batch:17`."""
    return f":{MAP_TASK}:" in capability
