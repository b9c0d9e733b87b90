"""Deadlines: an execution that is past its own fails, by the store's clock."""

from __future__ import annotations

import logging
from dataclasses import dataclass
from typing import assert_never

from tenure.errors import Malformed
from tenure.store.answers import OverdueAnswer
from tenure.store.duties import DutyStore, NotLeader
from tenure_scheduler.duties.complaints import Complaints
from tenure_scheduler.duties.pages import Ripe
from tenure_scheduler.duties.report import Report

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class DeadlineReport(Report):
    """`ended` at once; `requested`: something that runs was asked to stop first."""

    ended: int = 0
    requested: int = 0


class Deadlines:
    """One page of overdue executions per run."""

    name = "deadlines"
    is_nudged = False

    def __init__(self, *, duties: DutyStore, limit: int = 100) -> None:
        self._duties = duties
        self._complaints = Complaints()
        self._ripe = Ripe(duties=duties, index="deadlines", limit=limit)

    def run_once(self, leader: int) -> DeadlineReport:
        """Fail what is overdue."""
        page = self._ripe.page()
        ended = requested = malformed = 0
        for live in page:
            try:
                answer = self._duties.end_overdue(leader, live)
            except Malformed as error:
                self._complaints.about(error)
                malformed += 1
                continue
            match answer:
                case OverdueAnswer.ENDED:
                    log.info("%s has passed its deadline", live)
                    ended += 1
                case OverdueAnswer.REQUESTED:
                    log.info("%s has passed its deadline; what runs was asked to stop", live)
                    requested += 1
                case OverdueAnswer.NOT_DUE:
                    pass
                case OverdueAnswer.NOT_LEADER:
                    raise NotLeader
                case OverdueAnswer.UNREADABLE_HEADER:
                    raise AssertionError(f"{answer} is an exception by now")
                case _:
                    assert_never(answer)
        more = self._ripe.done(page, stayed=malformed)
        return DeadlineReport(ended=ended, requested=requested, malformed=malformed, more=more)
