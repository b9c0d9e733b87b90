"""An event that happens once and stays so.

It stands where seed 002 has a channel that is closed: one thread may wait for it, `on_set` tells whoever else
wants to know, and `wait_for_any` waits for several at once.
"""

from __future__ import annotations

import threading
from collections.abc import Callable


class Latch:
    """Not set, then set for good. Threads may share it."""

    def __init__(self) -> None:
        self._event = threading.Event()
        self._lock = threading.Lock()
        self._callbacks: dict[object, Callable[[], object]] = {}

    def __repr__(self) -> str:
        return f"<latch, {'set' if self.is_set() else 'not set'}>"

    def is_set(self) -> bool:
        """Whether it has happened."""
        return self._event.is_set()

    def set(self) -> bool:
        """Let it happen, and tell those who asked, in this thread. Says whether it was this call."""
        with self._lock:
            if self._event.is_set():
                return False
            self._event.set()
            callbacks, self._callbacks = list(self._callbacks.values()), {}
        for callback in callbacks:
            callback()
        return True

    def wait(self, timeout: float | None = None) -> bool:
        """Wait at most `timeout` seconds; says whether it has happened."""
        return self._event.wait(timeout)

    def on_set(self, callback: Callable[[], object]) -> Callable[[], None]:
        """Call `callback` once when it happens, at once if it has. What is returned takes it back."""
        ticket = object()
        with self._lock:
            if not self._event.is_set():
                self._callbacks[ticket] = callback
                return lambda: self._forget(ticket)
        callback()
        return lambda: None

    def _forget(self, ticket: object) -> None:
        with self._lock:
            self._callbacks.pop(ticket, None)


def wait_for_any(*latches: Latch, timeout: float | None = None) -> bool:
    """Wait until one of them is set, at most `timeout` seconds; says whether one is."""
    woken = threading.Event()
    take_back = [latch.on_set(woken.set) for latch in latches]
    try:
        return woken.wait(timeout)
    finally:
        for take in take_back:
            take()
