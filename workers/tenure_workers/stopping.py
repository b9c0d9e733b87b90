"""Signals that ask an agent to stop, counted. Nothing is raised in the middle of anything."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from contextlib import contextmanager


class StopSignals:
    """Counts SIGTERM, SIGINT and SIGHUP; these and deaths of children are written to a descriptor too."""

    def __init__(self) -> None:
        self.count = 0

    @contextmanager
    def caught(self, wakeup_descriptor: int) -> Iterator[None]:
        """Catch them; for the main thread only."""
        handlers = {
            signal.SIGTERM: self._note,
            signal.SIGINT: self._note,
            signal.SIGHUP: self._note,
            signal.SIGCHLD: _only_wake,
        }
        before = {number: signal.signal(number, handler) for number, handler in handlers.items()}
        wakeup_before = signal.set_wakeup_fd(wakeup_descriptor, warn_on_full_buffer=False)
        try:
            yield
        finally:
            signal.set_wakeup_fd(wakeup_before)
            for number, handler in before.items():
                signal.signal(number, handler)

    def _note(self, _number: int, _frame: object) -> None:
        self.count += 1


def _only_wake(_number: int, _frame: object) -> None:
    """A handler must be set for the descriptor to be written to."""
