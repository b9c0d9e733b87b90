"""Session expiry: an agent that has stopped renewing is not offered work any more.

What its slots held lapses by its own leases, and is the takeover scan's.
"""

from __future__ import annotations

import logging
from dataclasses import dataclass

from tenure.errors import Malformed
from tenure.store.answers import RetireAnswer
from tenure.store.duties import DutyStore
from tenure_scheduler.contact import Contact
from tenure_scheduler.duties.complaints import Complaints
from tenure_scheduler.duties.pages import Ripe
from tenure_scheduler.duties.report import Report

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionReport(Report):
    """`grace`: the server has just restarted or has not answered for a while, nobody could renew."""

    retired: int = 0
    grace: bool = False


class SessionExpiry:
    """One page of lapsed sessions per run."""

    name = "session expiry"
    is_nudged = False

    def __init__(self, *, duties: DutyStore, contact: Contact, limit: int = 100) -> None:
        self._duties = duties
        self._contact = contact
        self._complaints = Complaints()
        self._ripe = Ripe(duties=duties, index="sessions", limit=limit)

    def run_once(self, leader: int) -> SessionReport:
        """Retire a page of lapsed sessions."""
        page = self._ripe.page()
        self._contact.heard()
        if not self._contact.may_judge():
            return SessionReport(grace=True)
        retired = malformed = 0
        for session in page:
            try:
                answer = self._duties.expire_session(leader, session)
            except Malformed as error:
                self._complaints.about(error)
                malformed += 1
                continue
            if answer is RetireAnswer.GRACE:
                return SessionReport(retired=retired, malformed=malformed, grace=True)
            if answer is RetireAnswer.RETIRED:
                log.info("session %s is gone: it has not renewed", session)
                retired += 1
        more = self._ripe.done(page, stayed=malformed)
        return SessionReport(retired=retired, malformed=malformed, more=more)
