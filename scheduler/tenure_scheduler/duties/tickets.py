"""Ticket top-up: RQ may lose a ticket, the work it stood for is not lost with it (G10).

Each run is one sweep. A queue that was short of tickets at the last sweep and still is gets what it lacks.
One sweep alone proves nothing, since a slot takes the ticket a moment before it claims the route.
"""

from __future__ import annotations

from dataclasses import dataclass

from tenure.errors import Malformed
from tenure.store.duties import DutyStore
from tenure_scheduler.duties.complaints import Complaints
from tenure_scheduler.duties.report import Report


@dataclass(frozen=True, slots=True, kw_only=True)
class TopUpReport(Report):
    """How many tickets were written."""

    written: int = 0


class TicketTopUp:
    """One sweep over all queues per run, with at most `limit` tickets for each."""

    name = "ticket top-up"
    is_nudged = False

    def __init__(self, *, duties: DutyStore, limit: int = 200) -> None:
        self._duties = duties
        self._complaints = Complaints()
        self._limit = limit

    def run_once(self, leader: int) -> TopUpReport:
        """Sweep every queue."""
        written = malformed = 0
        for queue in self._duties.queues():
            try:
                written += self._duties.top_up(leader, queue, limit=self._limit)
            except Malformed as error:
                self._complaints.about(error)
                malformed += 1
        return TopUpReport(written=written, malformed=malformed)
