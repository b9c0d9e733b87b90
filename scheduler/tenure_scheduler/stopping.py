"""Asking a loop to stop, from a signal handler.

`threading.Event` will not do: its `set` takes the lock that the `wait` it interrupts may hold.
"""

from __future__ import annotations

import os
import select
import signal
from contextlib import suppress
from datetime import timedelta
from types import FrameType


class Stopping:
    """A flag with a wait that ends when it is raised. The wait is a pipe's, which a handler may write to."""

    def __init__(self) -> None:
        self._asked = False
        self._reading, self._writing = os.pipe()
        os.set_blocking(self._writing, False)

    def ask(self) -> None:
        """Ask to stop; more than once is the same as once."""
        self._asked = True
        # A full pipe has woken the reader already.
        with suppress(BlockingIOError):
            os.write(self._writing, b".")

    def asked(self) -> bool:
        """Whether to stop."""
        return self._asked

    def wait(self, timeout: timedelta) -> bool:
        """Wait until asked or until `timeout` has passed; says whether to stop."""
        if not self._asked:
            select.select([self._reading], [], [], timeout.total_seconds())
        return self._asked

    def on_signals(self) -> None:
        """Let SIGTERM and SIGINT (Ctrl-C) ask. Nothing is raised, so no step is cut in half."""
        signal.signal(signal.SIGTERM, self._handle)
        signal.signal(signal.SIGINT, self._handle)

    def _handle(self, _signal: int, _frame: FrameType | None) -> None:
        self.ask()
