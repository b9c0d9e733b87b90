"""Index repair: every route of a live execution is in exactly one index (G19).

No script leaves one out, but a write can be lost with a server; a route in no index would wait for ever.
"""

from __future__ import annotations

import logging
from dataclasses import dataclass

from tenure.errors import Malformed
from tenure.settings import Settings
from tenure.store.duties import DutyStore
from tenure_scheduler.duties.complaints import Complaints
from tenure_scheduler.duties.pages import Walk
from tenure_scheduler.duties.report import Report

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class RepairReport(Report):
    """How many executions were checked, and how many of their routes were put back."""

    checked: int = 0
    repaired: int = 0


class IndexRepair:
    """One page of live executions per run, round and round."""

    name = "index repair"
    is_nudged = False

    def __init__(self, *, duties: DutyStore, settings: Settings, limit: int = 50) -> None:
        self._duties = duties
        self._complaints = Complaints()
        self._lease = settings.lease
        self._limit = limit
        self._walk = Walk(duties=duties, index="live")

    def run_once(self, leader: int) -> RepairReport:
        """Check a page of live executions."""
        page = self._walk.page(self._limit)
        repaired = malformed = 0
        for live in page:
            try:
                capabilities = self._duties.repair(leader, live, lease=self._lease)
            except Malformed as error:
                self._complaints.about(error)
                malformed += 1
                continue
            if capabilities:
                log.warning("execution %s: put back in its index: %s", live, ", ".join(capabilities))
                repaired += len(capabilities)
        self._walk.advance(self._limit)
        # Never `more`: the walk has no end, and finding nothing is no reason to hurry.
        return RepairReport(checked=len(page), repaired=repaired, malformed=malformed)
