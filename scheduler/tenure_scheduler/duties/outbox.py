"""Outbox delivery: events that scripts have posted reach the provisioner, each at least once.

An event is removed only after the provisioner has accepted it. A scheduler that is killed in between, or that
leads no more, leaves it where it is, and the next one delivers it again: who is told twice knows it by its
`id`. Events are not delivered in the order in which they were posted.
"""

from __future__ import annotations

import logging
import random
from dataclasses import dataclass
from datetime import timedelta
from typing import Final, assert_never

from tenure.errors import Malformed
from tenure.settings import Settings
from tenure.store.answers import DeliverAnswer
from tenure.store.duties import DutyStore, NotLeader
from tenure.store.outbox import UnreadableEvent
from tenure_scheduler.courier import Courier, Delivery
from tenure_scheduler.duties.complaints import Complaints
from tenure_scheduler.duties.report import Report
from tenure_scheduler.provisioner import Accepted, Refused

log = logging.getLogger(__name__)

FIRST_PAUSE: Final = timedelta(seconds=1)
LONGEST_PAUSE: Final = timedelta(minutes=5)


@dataclass(frozen=True, slots=True, kw_only=True)
class OutboxReport(Report):
    """`begun`: handed to the courier. `dropped`: nobody is to have it, or nobody took it for too long."""

    begun: int = 0
    delivered: int = 0
    deferred: int = 0
    dropped: int = 0


class OutboxDelivery:
    """One page of due events per run, as far as the courier has room. Without a courier they are dropped."""

    name = "outbox"
    is_nudged = True

    def __init__(
        self, *, duties: DutyStore, courier: Courier | None, settings: Settings, limit: int = 100
    ) -> None:
        self._duties = duties
        self._courier = courier
        self._age = settings.retention
        self._limit = limit
        self._complaints = Complaints()

    def run_once(self, leader: int) -> OutboxReport:
        """Settle what has been delivered, and hand over what is due; waits for no delivery."""
        if self._courier is None:
            return self._drop_page(leader)
        answers = [self._settle(leader, delivery, self._courier) for delivery in self._courier.finished()]
        begun, malformed = self._hand_over(leader, self._courier)
        return OutboxReport(
            begun=begun,
            delivered=answers.count(DeliverAnswer.REMOVED),
            deferred=answers.count(DeliverAnswer.DEFERRED),
            dropped=answers.count(DeliverAnswer.DROPPED),
            malformed=malformed + answers.count(DeliverAnswer.UNREADABLE),
            # They have made way for others. What the courier has no room for waits until it has.
            more=malformed == self._limit,
        )

    def _drop_page(self, leader: int) -> OutboxReport:
        page = self._duties.page("outbox", limit=self._limit)
        for event_id in page:
            self._duties.remove_event(leader, event_id)
        return OutboxReport(dropped=len(page), more=len(page) == self._limit)

    def _settle(self, leader: int, delivery: Delivery, courier: Courier) -> DeliverAnswer:
        try:
            match delivery.outcome:
                case Accepted(said):
                    answer = self._note_accepted(leader, delivery, said)
                case Refused(reason):
                    answer = self._note_refused(leader, delivery, reason)
                case outcome:
                    assert_never(outcome)
        except Malformed as error:
            self._complaints.about(error)
            answer = DeliverAnswer.UNREADABLE
        # Not before the store has answered: until then this outcome is the only one who knows.
        courier.put_away(delivery)
        return answer

    def _note_accepted(self, leader: int, delivery: Delivery, said: str) -> DeliverAnswer:
        answer = self._duties.remove_event(leader, delivery.event.id)
        log.info(
            "event %s is delivered%s", delivery.event.id, f": {said}" if said else "", extra=_keys(delivery)
        )
        return answer

    def _note_refused(self, leader: int, delivery: Delivery, reason: str) -> DeliverAnswer:
        event, delay = delivery.event, pause_after(delivery.event.tries)
        answer = self._duties.defer_event(leader, event, reason=reason, delay=delay, age=self._age)
        match answer:
            case DeliverAnswer.DEFERRED:
                what = f"is tried again in {delay.total_seconds():.1f} s"
            case DeliverAnswer.DROPPED:
                what = f"is dropped after {event.tries + 1} tries: it is too old"
            case DeliverAnswer.REMOVED | DeliverAnswer.GONE:
                what = "was settled meanwhile"
            case DeliverAnswer.NOT_LEADER:
                raise NotLeader
            case DeliverAnswer.UNREADABLE:
                raise AssertionError(f"{answer} is an exception by now")
            case _:
                assert_never(answer)
        log.warning("event %s was not accepted and %s: %s", event.id, what, reason, extra=_keys(delivery))
        return answer

    def _hand_over(self, leader: int, courier: Courier) -> tuple[int, int]:
        """How many were handed over, and how many could not be read."""
        begun = malformed = 0
        page = self._duties.due_events(limit=self._limit) if courier.has_room() else []
        readable = [event for event in page if not isinstance(event, UnreadableEvent)]
        ended = self._duties.ended(readable) if readable else frozenset()
        for event in page:
            if not isinstance(event, UnreadableEvent):
                if event.id in ended:
                    # It wants no machine any more; to tell of it would only cost one.
                    self._duties.remove_event(leader, event.id)
                else:
                    begun += courier.carry(event)
                continue
            try:
                self._duties.set_event_aside(leader, event)
            except Malformed as error:
                self._complaints.about(error)
                malformed += 1
        return begun, malformed


def pause_after(tries: int) -> timedelta:
    """How long an event rests after one more failure: twice as long each time, and never two at one time."""
    doubled: timedelta = FIRST_PAUSE * 2 ** min(tries, 20)
    return min(doubled, LONGEST_PAUSE) * random.uniform(0.5, 1.0)  # noqa: S311  # spreading deliveries needs no secrecy


def _keys(delivery: Delivery) -> dict[str, str]:
    return {"execution": f"{delivery.event.instance}/{delivery.event.execution}"}
