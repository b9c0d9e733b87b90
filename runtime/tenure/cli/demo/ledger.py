"""A record of what ran, kept where no mistake of Tenure reaches it: a file that is only appended to.

A task writes a line when its body begins and one when it ends. A line is one `write` to a file opened for
appending, so the lines of all processes stay whole and in order.
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from tenure.engine.context import TaskContext

STARTED: Final = "started"
ENDED: Final = "ended"


@dataclass(frozen=True, slots=True, kw_only=True)
class Line:
    """One line. `at_seconds` is the machine's monotonic clock, which all its processes share."""

    what: str
    key: str
    attempt: int
    token: int
    pid: int
    at_seconds: float

    @property
    def capability(self) -> str:
        """The task call, as its execution names it."""
        return self.key.split(":", 2)[2]

    @property
    def run(self) -> tuple[str, int, int]:
        """What tells one run of a task body from every other."""
        return self.key, self.token, self.attempt


@contextmanager
def entered(ledger: Path, ctx: TaskContext) -> Iterator[None]:
    """Enter a task's body in the ledger: when it begins and, unless it raises or dies, when it ends."""
    _append(ledger, STARTED, ctx)
    yield
    _append(ledger, ENDED, ctx)


def _append(ledger: Path, what: str, ctx: TaskContext) -> None:
    fields = (what, ctx.idempotency_key, ctx.attempt, ctx.fencing_token, os.getpid(), time.monotonic())
    descriptor = os.open(ledger, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
    try:
        os.write(descriptor, (" ".join(map(str, fields)) + "\n").encode())
    finally:
        os.close(descriptor)


class LedgerReader:
    """Reads a ledger that grows. Not safe for threads."""

    def __init__(self, path: Path) -> None:
        self.lines: list[Line] = []
        self._path = path
        self._offset = 0

    def read(self) -> list[Line]:
        """Take in what is new; returns that."""
        try:
            with self._path.open("rb") as file:
                file.seek(self._offset)
                raw = file.read()
        except FileNotFoundError:
            return []
        whole = raw[: raw.rfind(b"\n") + 1]
        self._offset += len(whole)
        new = [_parse(text) for text in whole.decode().splitlines()]
        self.lines += new
        return new


def _parse(text: str) -> Line:
    what, key, attempt, token, pid, at = text.split(" ")
    return Line(
        what=what, key=key, attempt=int(attempt), token=int(token), pid=int(pid), at_seconds=float(at)
    )
