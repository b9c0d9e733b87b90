"""The takeover scan: what becomes of work whose holder has not renewed its lease.

It claims nothing and resends nothing. A claim that never started goes back as not started, a started
repeatable task goes back with its cause, and a started `once` task becomes UNKNOWN: elapsed time is never
evidence (G7).
"""

from __future__ import annotations

import logging
from dataclasses import dataclass
from typing import assert_never

from tenure.errors import Malformed
from tenure.store.answers import TakeoverAnswer
from tenure.store.duties import DutyStore, SetAside
from tenure_scheduler.contact import Contact
from tenure_scheduler.duties.complaints import Complaints
from tenure_scheduler.duties.pages import Ripe
from tenure_scheduler.duties.report import Report

log = logging.getLogger(__name__)

#: The script adds the session that held the lease, as it reads the record.
CAUSE = "its lease lapsed: no renewal from session"


@dataclass(frozen=True, slots=True, kw_only=True)
class TakeoverReport(Report):
    """`live`: renewed or superseded since the page was read.

    `grace`: the server has just restarted or has not answered for a while, nobody could renew.
    """

    taken: int = 0
    live: int = 0
    grace: bool = False


class TakeoverScan:
    """One page of lapsed leases per run; the script reads each candidate again before it judges."""

    name = "takeover scan"
    is_nudged = False

    def __init__(self, *, duties: DutyStore, contact: Contact, limit: int = 100) -> None:
        self._duties = duties
        self._contact = contact
        self._complaints = Complaints()
        self._ripe = Ripe(duties=duties, index="leased", limit=limit)

    def run_once(self, leader: int) -> TakeoverReport:
        """Take over a page of lapsed leases."""
        page = self._ripe.page()
        self._contact.heard()
        if not self._contact.may_judge():
            return TakeoverReport(grace=True)
        taken = live = malformed = stayed = 0
        for route in page:
            try:
                answer = self._duties.take_over(leader, route, cause=CAUSE)
            except Malformed as error:
                self._complaints.about(error)
                malformed += 1
                stayed += not isinstance(error, SetAside)
                continue
            match answer:
                case TakeoverAnswer.TAKEN:
                    log.info("took over %s", route)
                    taken += 1
                case TakeoverAnswer.LIVE:
                    live += 1
                case TakeoverAnswer.GRACE:
                    return TakeoverReport(taken=taken, live=live, malformed=malformed, grace=True)
                case TakeoverAnswer.NOT_LEADER | TakeoverAnswer.UNREADABLE | TakeoverAnswer.UNREADABLE_HEADER:
                    raise AssertionError(f"{answer} is an exception by now")
                case _:
                    assert_never(answer)
        more = self._ripe.done(page, stayed=stayed)
        return TakeoverReport(taken=taken, live=live, malformed=malformed, more=more)
