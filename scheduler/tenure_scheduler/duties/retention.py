"""Retention: what ended long ago is forgotten, by the store's clock.

An execution goes in one step with everything that belongs to it, so nobody ever reads half of one. How long
it is kept is the setting of the scheduler that leads, and counts from its end.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import assert_never

from tenure.errors import Malformed
from tenure.settings import Settings
from tenure.store.answers import ForgetAnswer
from tenure.store.duties import DutyStore, NotLeader
from tenure_scheduler.duties.complaints import Complaints
from tenure_scheduler.duties.pages import Ripe
from tenure_scheduler.duties.report import Report


@dataclass(frozen=True, slots=True, kw_only=True)
class RetentionReport(Report):
    """How many executions were forgotten."""

    forgotten: int = 0


class Retention:
    """One page of ended executions per run."""

    name = "retention"
    is_nudged = False

    def __init__(self, *, duties: DutyStore, settings: Settings, limit: int = 100) -> None:
        self._duties = duties
        self._complaints = Complaints()
        self._age = settings.retention
        self._ripe = Ripe(duties=duties, index="terminal", limit=limit, age=self._age)

    def run_once(self, leader: int) -> RetentionReport:
        """Forget what has been kept long enough."""
        page = self._ripe.page()
        forgotten = malformed = 0
        for ended in page:
            try:
                answer = self._duties.forget(leader, ended, age=self._age)
            except Malformed as error:
                self._complaints.about(error)
                malformed += 1
                continue
            match answer:
                case ForgetAnswer.FORGOTTEN:
                    forgotten += 1
                case ForgetAnswer.KEPT:
                    pass
                case ForgetAnswer.NOT_LEADER:
                    raise NotLeader
                case ForgetAnswer.UNREADABLE_END:
                    raise AssertionError(f"{answer} is an exception by now")
                case _:
                    assert_never(answer)
        more = self._ripe.done(page, stayed=malformed)
        return RetentionReport(forgotten=forgotten, malformed=malformed, more=more)
