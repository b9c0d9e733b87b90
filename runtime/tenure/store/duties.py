"""What the leading scheduler asks of the store.

Every write carries the leader's token, and its script checks again what it is based on.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

import redis
import redis.exceptions as failures

from tenure.errors import Malformed, StoreFull
from tenure.model.status import ExecutionStatus, SessionState, is_terminal
from tenure.store.answers import (
    DeliverAnswer,
    DueAnswer,
    EvictAnswer,
    ForgetAnswer,
    LeadAnswer,
    OverdueAnswer,
    PlaceAnswer,
    RepairAnswer,
    RetireAnswer,
    TakeoverAnswer,
)
from tenure.store.connection import reaching
from tenure.store.keys import Keys, split_member
from tenure.store.outbox import OutboxEvent, UnreadableEvent, read_event
from tenure.store.scripts import Scripts
from tenure.store.stored import unreadable_header

Candidates = Sequence[tuple[str, int]]

#: How Redis words an error that a script ran into, as against one in reaching or calling it.
_SCRIPT_ERROR = "user_script"


@dataclass(frozen=True, slots=True)
class Leading:
    """This scheduler leads, under this token."""

    token: int


@dataclass(frozen=True, slots=True)
class Following:
    """Another one leads; its lease may lapse after `wait`."""

    wait: timedelta


@dataclass(frozen=True, slots=True)
class Evicted:
    """What a call of `evict` moved, and how many routes and tickets of the queue are left."""

    routes: int
    left: int


class NotLeader(Exception):
    """Another scheduler leads now: nothing was written. It ends a round and is no error of the tree."""


class SetAside(Malformed):
    """It cannot be read, and has left the index in which it was met for that of what is blocked."""


class DutyStore:
    """The scripts of the scheduler's duties. `leader` is the token of `Leading`.

    Every method may raise StoreUnreachable or Unconfirmed, and those that write StoreFull. Those that act on
    one route, session, queue or execution raise Malformed if a script cannot digest what is stored about it.
    """

    def __init__(self, client: redis.Redis, scripts: Scripts, keys: Keys, *, events_kept: int) -> None:
        self._client = client
        self._scripts = scripts
        self._keys = keys
        self._cap = events_kept

    def lead(self, owner: str, *, lease: timedelta, grace: timedelta) -> Leading | Following:
        """Win or renew the leadership. `owner` is an id that no other process has.

        `grace`: nothing is taken over for that long after the server's run id has changed.
        """
        reply = self._scripts.call("lead", {"owner": owner, "lease": _ms(lease), "grace": _ms(grace)})
        if reply["answer"] is LeadAnswer.LEADING:
            return Leading(int(reply["token"]))
        return Following(timedelta(milliseconds=int(reply["wait"])))

    def resign(self, owner: str) -> None:
        """Let go of the leadership, so that a standby leads at once. Does nothing for who does not lead."""
        self._scripts.call("lead", {"owner": owner, "resign": True})

    def wait_for_nudge(self, timeout: timedelta) -> bool:
        """Wait until somebody has work for the scheduler, or `timeout`, more than zero, has passed."""
        with reaching():
            return self._client.blpop([self._keys("nudge")], timeout=timeout.total_seconds()) is not None

    def nudge(self) -> None:
        """Wake the leading scheduler from a wait for it."""
        with reaching(), self._client.pipeline() as pipe:
            pipe.lpush(self._keys("nudge"), 1)
            pipe.ltrim(self._keys("nudge"), 0, 0)
            try:
                pipe.execute()
            except failures.OutOfMemoryError as error:
                raise StoreFull("the server's memory limit is reached; the scheduler is not woken") from error

    def page(
        self, index: str, *, limit: int, after: int = 0, due: bool = False, age: timedelta = timedelta(0)
    ) -> list[str]:
        """Members of an index, oldest first; with `due`, those that came due `age` ago by the store's clock.

        `index` is one of leased, due, sessions, environment, blocked, live, deadlines, terminal,
        outbox.
        """
        reply = self._scripts.call(
            "scan", {"index": index, "limit": limit, "after": after, "due": due or None, "age": _ms(age)}
        )
        return list(reply["entries"])

    def size(self, index: str) -> int:
        """How many members an index has."""
        with reaching():
            return int(self._client.zcard(self._keys(index)))

    def queues(self) -> list[str]:
        """The names of all queues, by name."""
        with reaching():
            names: Any = self._client.smembers(self._keys("queues"))
        return sorted(raw.decode() for raw in names)

    def unplaced(self, limit: int) -> list[str]:
        """Parked routes that placement has not looked at; which ones, is left to chance."""
        with reaching():
            routes: Any = self._client.srandmember(self._keys("unplaced"), limit)
        return [raw.decode() for raw in routes]

    def forget_unplaced(self, route: str) -> None:
        """Leave a route parked until the session registry changes."""
        with reaching():
            self._client.srem(self._keys("unplaced"), route)

    def take_over(self, leader: int, route: str, *, cause: str) -> TakeoverAnswer:
        """Put down one route whose lease lapsed. The script ends `cause` with the name of its session."""
        arguments = {"leader": leader, "route": route, "cause": cause}
        reply = self._leading("takeover", f"route {route}", arguments)
        return TakeoverAnswer(reply["answer"])

    def make_ready(self, leader: int, route: str) -> DueAnswer:
        """Dispatch one due route."""
        return DueAnswer(self._leading("due", f"route {route}", {"leader": leader, "route": route})["answer"])

    def end_overdue(self, leader: int, live: str) -> OverdueAnswer:
        """Fail an execution, `instance/execution`, that is past its deadline."""
        reply = self._leading("overdue", f"execution {live}", {"leader": leader, "live": live})
        return OverdueAnswer(reply["answer"])

    def forget(self, leader: int, ended: str, *, age: timedelta) -> ForgetAnswer:
        """Delete an execution, `instance/execution`, that ended `age` ago, with all that belongs to it."""
        arguments = {"leader": leader, "ended": ended, "age": _ms(age)}
        answer = ForgetAnswer(self._leading("forget", f"execution {ended}", arguments)["answer"])
        if answer is ForgetAnswer.UNREADABLE_END:
            raise Malformed(
                f"execution {ended}: it is listed as ended, and what is stored does not say so; it is kept"
            )
        return answer

    def place(
        self,
        leader: int,
        route: str,
        candidates: Candidates,
        *,
        registry: int,
        unmet: tuple[str, str] | None = None,
    ) -> PlaceAnswer:
        """Place a parked route among `candidates`, computed from `registry`.

        `unmet`: the name of its demand, and the event that is posted once if nobody meets it.
        """
        arguments = {
            "leader": leader,
            "route": route,
            "candidates": [list(c) for c in candidates],
            "registry": registry,
            "unmet": None if unmet is None else list(unmet),
        }
        return PlaceAnswer(self._leading("place", f"route {route}", arguments)["answer"])

    def evict(self, leader: int, queue: str, *, limit: int) -> Evicted | None:
        """Return waiting routes of a queue to placement; None if it has a session."""
        reply = self._leading("evict", f"queue {queue}", {"leader": leader, "queue": queue, "limit": limit})
        if reply["answer"] is EvictAnswer.BUSY:
            return None
        return Evicted(int(reply["count"]), int(reply["left"]))

    def top_up(self, leader: int, queue: str, *, limit: int) -> int:
        """Write the tickets that have been missing for two sweeps; says how many."""
        reply = self._leading("top_up", f"queue {queue}", {"leader": leader, "queue": queue, "limit": limit})
        return int(reply["count"])

    def repair(self, leader: int, live: str, *, lease: timedelta) -> list[str]:
        """Check the index entries of one live execution, `instance/execution`; returns what was put back."""
        instance, execution, _ = split_member(live + "/")
        arguments = {"leader": leader, "instance": instance, "execution": execution, "lease": _ms(lease)}
        reply = self._leading("repair", f"execution {live}", arguments)
        return list(reply["repaired"]) if reply["answer"] is RepairAnswer.CHECKED else []

    def expire_session(self, leader: int, session: str) -> RetireAnswer:
        """Retire a session whose lease lapsed."""
        arguments = {"leader": leader, "session": session, "state": SessionState.GONE.value}
        return RetireAnswer(self._leading("retire", f"session {session}", arguments)["answer"])

    def due_events(self, *, limit: int) -> list[OutboxEvent | UnreadableEvent]:
        """Events of the outbox that are to be delivered now, those that are due for the longest first."""
        ids = self.page("outbox", limit=limit, due=True)
        if not ids:
            return []
        with reaching():
            stored: Any = self._client.hmget(self._keys("outbox_event"), ids)
        return [read_event(one, raw) for one, raw in zip(ids, stored, strict=True)]

    def ended(self, events: Sequence[OutboxEvent]) -> frozenset[str]:
        """Ids of those events whose execution has ended meanwhile, so that it needs nothing any more."""
        with reaching(), self._client.pipeline(transaction=False) as pipe:
            for event in events:
                pipe.hget(self._keys("execution", event.instance, event.execution), "status")
            statuses = pipe.execute(raise_on_error=False)
        ends = {status.value.encode() for status in ExecutionStatus if is_terminal(status)}
        return frozenset(event.id for event, raw in zip(events, statuses, strict=True) if raw in ends)

    def unmet(self) -> list[str]:
        """The names of the demands that were told of because nobody met them."""
        with reaching():
            names: Any = self._client.hkeys(self._keys("unmet"))
        return [raw.decode() for raw in names]

    def forget_unmet(self, names: Sequence[str] | None = None) -> None:
        """Let these demands, or all, be told of again when nobody meets them."""
        with reaching():
            if names is None:
                self._client.unlink(self._keys("unmet"))
            elif names:
                self._client.hdel(self._keys("unmet"), *names)

    def remove_event(self, leader: int, event_id: str) -> DeliverAnswer:
        """Forget an event that was accepted, or that nobody is to have."""
        return self._deliver(leader, event_id)

    def defer_event(
        self, leader: int, event: OutboxEvent, *, reason: str, delay: timedelta, age: timedelta
    ) -> DeliverAnswer:
        """Note a failed delivery: the event is due again after `delay`, or dropped if older than `age`."""
        return self._deliver(
            leader, event.id, failed=reason, tries=event.tries, delay=_ms(delay), age=_ms(age)
        )

    def set_event_aside(self, leader: int, event: UnreadableEvent) -> DeliverAnswer:
        """Let an event that cannot be read be due no more. Raises SetAside, unless there is none."""
        return self._deliver(leader, event.id, why=event.why, unreadable=True)

    def _deliver(
        self, leader: int, event_id: str, *, why: str | None = None, **arguments: Any
    ) -> DeliverAnswer:
        subject = f"event {event_id} of the outbox" + (f" ({why})" if why else "")
        reply = self._leading("deliver", subject, {"leader": leader, "id": event_id, **arguments})
        return DeliverAnswer(reply["answer"])

    def _leading(self, name: str, subject: str, arguments: Mapping[str, Any]) -> dict[str, Any]:
        try:
            reply = self._scripts.call(name, {**arguments, "cap": self._cap})
        except failures.ResponseError as error:
            if _SCRIPT_ERROR not in str(error):
                raise
            raise Malformed(
                f"{subject}: what is stored cannot be read by {name!r} ({error}); it is kept"
            ) from error
        if reply["answer"] == RetireAnswer.NOT_LEADER:
            raise NotLeader
        if reply["answer"] == TakeoverAnswer.UNREADABLE_HEADER:
            raise unreadable_header(subject, reply.get("schema"))
        if reply["answer"] == TakeoverAnswer.UNREADABLE:
            raise SetAside(f"{subject}: what is stored cannot be read; it is set aside with its bytes")
        return reply


def _ms(duration: timedelta) -> int:
    return int(duration.total_seconds() * 1000)
