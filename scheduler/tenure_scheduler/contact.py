"""Whether this scheduler has heard from the store without a break, for as long as it takes to judge others.

A server that hangs, or a network that does, lets every lease lapse while nobody could renew. When it goes on,
a scheduler that happens to be heard first would take over what is alive. So after a silence nobody is judged
by the clock until everybody had time to renew; after a restart the store itself sees to that.
"""

from __future__ import annotations

import time
from collections.abc import Callable

from tenure.settings import Settings


class Contact:
    """Told of the answers that come at every tick: to the leadership, and to the duties that judge.

    `clock` counts seconds, as `time.monotonic` does.
    """

    def __init__(self, settings: Settings, *, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        lease, renewal = settings.lease.total_seconds(), settings.renewal.total_seconds()
        # No lease lapses in a shorter one: it was renewed at most one renewal ago. Half of that, since the
        # silence may have begun before this scheduler asked.
        self._silence = max((lease - renewal) / 2, 2 * settings.tick.total_seconds())
        self._patience = lease
        self._heard_at: float | None = None
        self._judges_from = 0.0

    def heard(self) -> None:
        """The store has just answered."""
        now = self._clock()
        if self._heard_at is not None and now - self._heard_at > self._silence:
            self._judges_from = now + self._patience
        self._heard_at = now

    def may_judge(self) -> bool:
        """Whether a lapse means that its holder is gone."""
        return self._clock() >= self._judges_from
