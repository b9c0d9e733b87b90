"""What the leading scheduler asks of the store. Every write carries the leader's token and re-checks its condition."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import timedelta

import redis

from tenure.model.status import SessionState
from tenure.store.answers import (
    DueAnswer,
    EvictAnswer,
    LeadAnswer,
    PlaceAnswer,
    RepairAnswer,
    RetireAnswer,
    TakeoverAnswer,
)
from tenure.store.keys import Keys, split_member
from tenure.store.scripts import Scripts

Candidates = Sequence[tuple[str, int]]


@dataclass(frozen=True, slots=True)
class Leading:
    """This scheduler leads, under this token."""

    token: int


@dataclass(frozen=True, slots=True)
class Following:
    """Another one leads; its lease may lapse after `wait`."""

    wait: timedelta


class NotLeader(Exception):  # noqa: N818  # a control signal of the scheduler's round, not an error of the tree
    """Another scheduler leads now: nothing was written."""


class DutyStore:
    """The scripts of the scheduler's duties. `leader` is the token of `Leading`."""

    def __init__(self, client: redis.Redis, scripts: Scripts, keys: Keys, *, events_kept: int) -> None:
        self._client = client
        self._scripts = scripts
        self._keys = keys
        self._cap = events_kept

    def lead(
        self, owner: str, token: int, *, run: str, lease: timedelta, grace: timedelta
    ) -> Leading | Following:
        """Win or renew the leadership. `grace`: nothing is taken over that long after a new server run id."""
        reply = self._scripts.call(
            "lead",
            {"owner": owner, "token": token, "run": run, "lease": _ms(lease), "grace": _ms(grace)},
        )
        if reply["answer"] is LeadAnswer.LEADING:
            return Leading(int(reply["token"]))
        return Following(timedelta(milliseconds=int(reply["wait"])))

    def resign(self, owner: str, token: int, *, run: str) -> None:
        """Let go of the leadership, so that a standby leads at once."""
        self._scripts.call(
            "lead", {"owner": owner, "token": token, "run": run, "lease": 0, "grace": 0, "resign": True}
        )

    def wait_for_nudge(self, timeout: timedelta) -> bool:
        """Wait until somebody has work for the scheduler, or `timeout` has passed."""
        return self._client.blpop([self._keys("nudge")], timeout=timeout.total_seconds()) is not None

    def page(self, index: str, *, limit: int, after: int = 0, due: bool = False) -> list[str]:
        """Members of an index, oldest first; with `due`, those whose time has come by the store's clock.

        `index` is one of leased, due, sessions, environment, live.
        """
        reply = self._scripts.call("scan", {"index": index, "limit": limit, "after": after, "due": due or None})
        return list(reply["entries"])

    def unplaced(self, limit: int) -> list[str]:
        """Parked routes that placement has not looked at."""
        return [raw.decode() for raw in self._client.srandmember(self._keys("unplaced"), limit)]

    def forget_unplaced(self, route: str) -> None:
        """Drop an entry whose route is not there any more."""
        self._client.srem(self._keys("unplaced"), route)

    def take_over(self, leader: int, route: str, *, run: str, cause: str) -> TakeoverAnswer:
        """Put down one route whose lease lapsed."""
        reply = self._leading(
            "takeover", {"leader": leader, "route": route, "run": run, "cause": cause, "cap": self._cap}
        )
        return TakeoverAnswer(reply)

    def make_ready(self, leader: int, route: str) -> DueAnswer:
        """Dispatch one due route."""
        return DueAnswer(self._leading("due", {"leader": leader, "route": route, "cap": self._cap}))

    def place(self, leader: int, route: str, candidates: Candidates, *, registry: int) -> PlaceAnswer:
        """Place a parked route among `candidates`, computed from `registry`."""
        return PlaceAnswer(
            self._leading(
                "place",
                {
                    "leader": leader,
                    "route": route,
                    "candidates": [list(c) for c in candidates],
                    "registry": registry,
                    "cap": self._cap,
                },
            )
        )

    def evict(self, leader: int, queue: str, *, limit: int) -> tuple[EvictAnswer, int]:
        """Return the waiting routes of a queue without sessions to placement; says how many."""
        reply = self._scripts.call("evict", {"leader": leader, "queue": queue, "limit": limit, "cap": self._cap})
        _check_leader(reply["answer"])
        return reply["answer"], int(reply.get("count", 0))

    def top_up(self, leader: int, queue: str, *, limit: int) -> int:
        """Write the tickets that have been missing for two sweeps; says how many."""
        reply = self._scripts.call("top_up", {"leader": leader, "queue": queue, "limit": limit})
        _check_leader(reply["answer"])
        return int(reply["count"])

    def repair(self, leader: int, live: str, *, lease: timedelta) -> list[str]:
        """Check the index entries of one live execution, `instance/execution`; returns what was put back."""
        instance, execution, _ = split_member(live + "/")
        reply = self._scripts.call(
            "repair",
            {
                "leader": leader,
                "instance": instance,
                "execution": execution,
                "lease": _ms(lease),
                "cap": self._cap,
            },
        )
        _check_leader(reply["answer"])
        return list(reply["repaired"]) if reply["answer"] is RepairAnswer.CHECKED else []

    def expire_session(self, leader: int, session: str) -> RetireAnswer:
        """Retire a session whose lease lapsed."""
        return RetireAnswer(
            self._leading("retire", {"leader": leader, "session": session, "state": SessionState.GONE.value})
        )

    def _leading(self, name: str, arguments: dict[str, object]) -> str:
        answer = self._scripts.call(name, arguments)["answer"]
        _check_leader(answer)
        return str(answer)


def _check_leader(answer: str) -> None:
    if answer == RetireAnswer.NOT_LEADER:
        raise NotLeader


def _ms(duration: timedelta) -> int:
    return int(duration.total_seconds() * 1000)
