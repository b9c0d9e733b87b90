"""A lifetime: work watches it, somebody may end it, and whatever derives from it ends with it."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from datetime import timedelta

from tenure.model.latch import Latch


class Scope:
    """Begins at once and ends by `cancel`, with its parent, or when its budget is spent. For any thread.

    `cancelled` is set when it ends; `reason` says why from then on.
    """

    def __init__(self, parent: Scope | None = None) -> None:
        self.cancelled = Latch()
        self._lock = threading.Lock()
        self._reason: str | None = None
        self._deadline: float | None = None
        self._timer: threading.Timer | None = None
        self._leave_parent: Callable[[], None] = lambda: None
        if parent is not None:
            self._leave_parent = parent.cancelled.on_set(lambda: self.cancel(parent.reason or ""))

    def __repr__(self) -> str:
        return f"<scope, {'live' if self.reason is None else f'ended: {self.reason}'}>"

    @property
    def reason(self) -> str | None:
        """Why it has ended; None while it lives."""
        with self._lock:
            return self._reason

    @property
    def is_cancelled(self) -> bool:
        """Whether it has ended."""
        return self.cancelled.is_set()

    def cancel(self, reason: str = "cancelled") -> bool:
        """End it, and all that derives from it. The first reason stays; says whether it was this one."""
        with self._lock:
            if self._reason is not None:
                return False
            self._reason = reason
            timer, self._timer = self._timer, None
        if timer is not None:
            timer.cancel()
        self._leave_parent()
        return self.cancelled.set()

    def wait(self, timeout: float | None = None) -> bool:
        """Wait at most `timeout` seconds for its end; says whether it has ended."""
        return self.cancelled.wait(timeout)

    def derive(self) -> Scope:
        """A scope that ends with this one, and may end before it."""
        return Scope(self)

    def outlive_parent(self) -> None:
        """Do not end with the parent any more."""
        self._leave_parent()

    def limit(self, budget: timedelta, reason: str) -> None:
        """End it for `reason` when `budget` has passed. Of several limits the earliest counts."""
        deadline = time.monotonic() + budget.total_seconds()
        with self._lock:
            if self._reason is not None or (self._deadline is not None and self._deadline <= deadline):
                return
            if self._timer is not None:
                self._timer.cancel()
            self._deadline = deadline
            self._timer = threading.Timer(max(0.0, budget.total_seconds()), self.cancel, [reason])
            self._timer.daemon = True
            self._timer.start()

    def remaining(self) -> timedelta | None:
        """How much of its budget is left; None if it has none."""
        with self._lock:
            if self._deadline is None:
                return None
            return timedelta(seconds=max(0.0, self._deadline - time.monotonic()))
