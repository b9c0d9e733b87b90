"""The scheduler's loop: time, stopping and logging are here, so that the duties need none of them.

It outlives an absent server: whatever cannot be confirmed is logged, the leadership is presumed lost, and the
loop comes round again. A duty that fails is logged with its traceback and stops no other.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Sequence
from datetime import timedelta
from typing import Final, assert_never

from tenure.errors import StoreFull, StoreUnreachable, Unconfirmed
from tenure.settings import Settings
from tenure.store.duties import Following, Leading, NotLeader
from tenure_scheduler.duties.report import Duty
from tenure_scheduler.leadership import Leadership
from tenure_scheduler.stopping import Stopping

log = logging.getLogger(__name__)

#: The longest wait for a nudge: a signal cannot cut it short.
NUDGE_WAIT: Final = timedelta(seconds=0.5)
#: The shortest wait of a follower, and the shortest for a nudge, where zero would mean for ever.
SHORTEST_WAIT: Final = timedelta(milliseconds=20)


class Scheduler:
    """Leads and does its duties, or follows and waits.

    `wait_for_nudge` waits until there is work or its argument has passed, and says which.
    """

    def __init__(
        self,
        *,
        leadership: Leadership,
        duties: Sequence[Duty],
        settings: Settings,
        wait_for_nudge: Callable[[timedelta], bool],
        stopping: Stopping,
    ) -> None:
        self._leadership = leadership
        self._duties = duties
        self._tick = settings.tick.total_seconds()
        self._renewal = settings.leadership.total_seconds() / 3
        self._wait_for_nudge = wait_for_nudge
        self._stopping = stopping
        self._due_at = dict.fromkeys((duty.name for duty in duties), 0.0)
        self._attended_at = 0.0
        self._standing: Leading | Following | None = None

    def run(self) -> None:
        """Go on until asked to stop, then resign."""
        while not self._stopping.asked():
            try:
                self._go_round()
            except (StoreUnreachable, Unconfirmed) as error:
                log.warning("leadership is presumed lost: %s", error)
                self._standing = None
                self._stopping.wait(timedelta(seconds=min(self._tick, 0.5)))
            except Exception:
                log.exception("the round failed; the next one follows")
                self._standing = None
                self._stopping.wait(timedelta(seconds=self._tick))
        self._resign()

    def _go_round(self) -> None:
        match self._attend():
            case Following(wait):
                at_most = min(wait, timedelta(seconds=self._tick))
                self._stopping.wait(max(at_most, SHORTEST_WAIT))
            case Leading():
                self._do_duties()
                self._rest()
            case standing:
                assert_never(standing)

    def _attend(self) -> Leading | Following:
        if isinstance(self._standing, Leading) and time.monotonic() - self._attended_at < self._renewal:
            return self._standing
        before, self._standing = self._standing, None
        asked_at = time.monotonic()
        standing = self._leadership.attend()
        self._standing, self._attended_at = standing, asked_at
        if type(standing) is not type(before):
            log.info("scheduler %s %s", self._leadership.owner, _word(standing))
        return standing

    def _do_duties(self) -> None:
        for duty in self._duties:
            if self._stopping.asked() or time.monotonic() < self._due_at[duty.name]:
                continue
            match self._attend():
                case Leading(token):
                    self._do(duty, token)
                case Following():
                    return

    def _do(self, duty: Duty, token: int) -> None:
        self._due_at[duty.name] = time.monotonic() + self._tick
        try:
            report = duty.run_once(token)
        except (StoreUnreachable, Unconfirmed, NotLeader) as error:
            # Asked before the next duty; if the store is away, that ends the round.
            log.warning("%s: leadership is in doubt: %s", duty.name, str(error) or "another scheduler leads")
            self._standing = None
        except StoreFull as error:
            log.warning("%s: %s", duty.name, error)
        except Exception:
            log.exception("%s failed; the other duties go on", duty.name)
        else:
            if report.more:
                self._due_at[duty.name] = 0.0
            if text := str(report):
                log.debug("%s: %s", duty.name, text)

    def _rest(self) -> None:
        left = min(self._due_at.values()) - time.monotonic()
        if left <= 0 or self._stopping.asked():
            return
        wait = min(max(timedelta(seconds=left), SHORTEST_WAIT), NUDGE_WAIT)
        if self._wait_for_nudge(wait):
            for duty in self._duties:
                if duty.is_nudged:
                    self._due_at[duty.name] = 0.0

    def _resign(self) -> None:
        # Who is in doubt may be leading, and a standby should not have to wait for that.
        if isinstance(self._standing, Following):
            return
        try:
            self._leadership.resign()
        except (StoreUnreachable, Unconfirmed, StoreFull) as error:
            log.warning("not resigned, a standby leads when the lease lapses: %s", error)
        else:
            log.info("scheduler %s resigned", self._leadership.owner)


def _word(standing: Leading | Following) -> str:
    match standing:
        case Leading(token):
            return f"leads, token {token}"
        case Following():
            return "follows"
