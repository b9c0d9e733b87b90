"""Deliveries under way: a hook may take half a minute, and the scheduler must not wait for it.

Each has a thread of its own, of which there are only so many. What has come of one is kept until its event is
settled in the store, so that an answer that was lost on the way there is no reason to deliver again.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable
from dataclasses import dataclass
from types import TracebackType
from typing import Self

from tenure.errors import TenureError
from tenure.store.outbox import OutboxEvent
from tenure_scheduler.provisioner import Accepted, Provisioner, Refused, document

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Delivery:
    """One that has ended."""

    event: OutboxEvent
    outcome: Accepted | Refused


class Courier:
    """Brings events to a provisioner, at most `limit` at a time.

    `wake` is called in a delivery's thread when it has ended. They are daemons: whoever stops waits for none.
    """

    def __init__(
        self, *, provisioner: Provisioner, namespace: str, wake: Callable[[], None], limit: int = 8
    ) -> None:
        self._provisioner = provisioner
        self._namespace = namespace
        self._wake = wake
        self._limit = limit
        self._lock = threading.Lock()
        #: By the event's id; None while the hook is at it.
        self._deliveries: dict[str, Delivery | None] = {}
        self._closed = False

    def has_room(self) -> bool:
        """Whether one more may be handed over."""
        with self._lock:
            return not self._closed and len(self._deliveries) < self._limit

    def carry(self, event: OutboxEvent) -> bool:
        """Begin to deliver an event; False if it is under way, not yet put away, or one too many."""
        with self._lock:
            if self._closed or event.id in self._deliveries or len(self._deliveries) >= self._limit:
                return False
            self._deliveries[event.id] = None
        threading.Thread(
            target=self._deliver, args=(event,), name=f"delivery-{event.id}", daemon=True
        ).start()
        return True

    def finished(self) -> list[Delivery]:
        """Those that have ended; the same ones again, until they are put away."""
        with self._lock:
            return [delivery for delivery in self._deliveries.values() if delivery is not None]

    def put_away(self, delivery: Delivery) -> None:
        """Forget one whose event is settled."""
        with self._lock:
            self._deliveries.pop(delivery.event.id, None)

    def close(self) -> None:
        """Begin no more, and stop what can be stopped; nothing is waited for."""
        with self._lock:
            self._closed = True
        self._provisioner.close()

    def _deliver(self, event: OutboxEvent) -> None:
        try:
            outcome = self._provisioner.deliver(document(event, self._namespace))
        except Exception as error:
            log.exception("delivering event %s failed in an unexpected way", event.id)
            outcome = Refused(f"unexpected {type(error).__name__}; the scheduler's log has more")
        with self._lock:
            self._deliveries[event.id] = Delivery(event, outcome)
            if self._closed:
                return
        try:
            self._wake()
        except TenureError as error:
            log.debug("event %s is settled at the next tick: %s", event.id, error)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()
