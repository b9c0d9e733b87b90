"""Due work: what waited for a time, and whose time has come by the store's clock, is made ready."""

from __future__ import annotations

from dataclasses import dataclass

from tenure.errors import Malformed
from tenure.store.answers import DueAnswer
from tenure.store.duties import DutyStore, SetAside
from tenure_scheduler.duties.complaints import Complaints
from tenure_scheduler.duties.pages import Ripe
from tenure_scheduler.duties.report import Report


@dataclass(frozen=True, slots=True, kw_only=True)
class DueReport(Report):
    """How many routes were made ready."""

    dispatched: int = 0


class DueWork:
    """Retries, timers and delayed starts whose time has come, one page per run."""

    name = "due work"
    is_nudged = False

    def __init__(self, *, duties: DutyStore, limit: int = 100) -> None:
        self._duties = duties
        self._complaints = Complaints()
        self._ripe = Ripe(duties=duties, index="due", limit=limit)

    def run_once(self, leader: int) -> DueReport:
        """Make a page of due routes ready."""
        page = self._ripe.page()
        dispatched = malformed = stayed = 0
        for route in page:
            try:
                if self._duties.make_ready(leader, route) is DueAnswer.DISPATCHED:
                    dispatched += 1
            except Malformed as error:
                self._complaints.about(error)
                malformed += 1
                stayed += not isinstance(error, SetAside)
        more = self._ripe.done(page, stayed=stayed)
        return DueReport(dispatched=dispatched, malformed=malformed, more=more)
