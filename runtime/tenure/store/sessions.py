"""Sessions, queues and slot lives: what agents write, and what placement reads."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import msgpack
import redis

from tenure.errors import InvalidInput, Malformed
from tenure.model.allocation import Allocation
from tenure.model.data import decode, encode
from tenure.model.status import SessionState
from tenure.store.answers import RegisterAnswer, RenewAnswer
from tenure.store.connection import reaching
from tenure.store.keys import RECIPE, Keys
from tenure.store.scripts import Scripts

log = logging.getLogger(__name__)

_REGISTRY_LIMIT = 1024 * 1024


@dataclass(frozen=True, slots=True)
class Catalogue:
    """The code a class of slots has loaded: task names, and recipes as `name@version`."""

    tasks: frozenset[str]
    recipes: frozenset[str]

    def to_data(self) -> dict[str, list[str]]:
        """Plain data, in a canonical order."""
        return {"tasks": sorted(self.tasks), "recipes": sorted(self.recipes)}

    @classmethod
    def from_data(cls, data: Mapping[str, Any]) -> Catalogue:
        """The inverse of `to_data`."""
        return cls(frozenset(data["tasks"]), frozenset(data["recipes"]))


@dataclass(frozen=True, slots=True)
class QueueFacts:
    """One class of interchangeable slots."""

    name: str
    pool: str
    allocation: Allocation
    catalogue: Catalogue
    sessions: int
    idle: int
    waiting: int


@dataclass(frozen=True, slots=True)
class SessionFacts:
    """One agent as the store knows it. Times are ms of the store's clock."""

    name: str
    state: SessionState
    generation: int
    pool: str
    host: str
    pid: int
    queue: str
    slots: int
    registered_at: int
    expires_at: int | None


@dataclass(frozen=True, slots=True)
class RegistryView:
    """All queues at one revision of the session registry."""

    revision: int
    queues: tuple[QueueFacts, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Registration:
    """What an agent says of itself when it registers."""

    session: str
    nonce: str
    pool: str
    host: str
    boot: str
    pid: int
    queue: str
    slots: int
    allocation: Allocation
    catalogue: Catalogue


@dataclass(frozen=True, slots=True)
class Renewed:
    """What a renewal found, as (route, token): not current any more, and what its holder is to stop."""

    lost: frozenset[tuple[str, int]] = frozenset()
    cancelled: frozenset[tuple[str, int]] = frozenset()


class Sessions:
    """The session registry of one namespace."""

    def __init__(self, client: redis.Redis, scripts: Scripts, keys: Keys, *, events_kept: int) -> None:
        # redis-py types every reply for both decoding modes at once; ours is always bytes.
        self._client: Any = client
        self._scripts = scripts
        self._keys = keys
        self._cap = events_kept

    def register(self, registration: Registration, *, lease_ms: int) -> int:
        """Register under the next generation, which is returned.

        Raises:
            InvalidInput: a live agent has the same name.
        """
        r = registration
        reply = self._scripts.call(
            "register",
            {
                "session": r.session,
                "nonce": r.nonce,
                "pool": r.pool,
                "host": r.host,
                "boot": r.boot,
                "pid": r.pid,
                "queue": r.queue,
                "slots": r.slots,
                "lease": lease_ms,
                "allocation": encode(r.allocation.to_data(), limit=_REGISTRY_LIMIT, where="allocation"),
                "catalogue": encode(r.catalogue.to_data(), limit=_REGISTRY_LIMIT, where="catalogue"),
            },
        )
        if reply["answer"] is RegisterAnswer.TAKEN:
            raise InvalidInput(f"a live worker is already named {r.session!r}; give this one another --name")
        return int(reply["generation"])

    def renew(
        self, session: str, generation: int, pairs: Sequence[tuple[str, int, bool]], *, lease_ms: int
    ) -> Renewed | None:
        """Renew the session and the (route, token, started) pairs; None if the session itself is gone."""
        reply = self._scripts.call(
            "renew",
            {
                "session": session,
                "generation": generation,
                "lease": lease_ms,
                "pairs": [list(pair) for pair in pairs],
            },
        )
        if reply["answer"] is RenewAnswer.GONE:
            return None
        return Renewed(_pairs(reply["lost"]), _pairs(reply["cancelled"]))

    def abandon(self, life: str, queue: str, *, cause: str, charge: str | None, run: str) -> list[str]:
        """Close a slot life and put down what it held; idempotent.

        `charge` says to whom the death counts: "recipe", "task", "timeout", or None for nobody.
        """
        if charge not in (RECIPE, "task", "timeout", None):
            raise ValueError(f"charge {charge!r}")
        reply = self._scripts.call(
            "abandon",
            {"life": life, "queue": queue, "cause": cause, "charge": charge, "cap": self._cap, "run": run},
        )
        return list(reply["routes"])

    def retire(self, session: str, generation: int, state: SessionState) -> None:
        """Say that a session drains or has gone."""
        self._scripts.call("retire", {"session": session, "generation": generation, "state": state.value})

    @reaching()
    def look_away(self, queue: str, life: str) -> None:
        """Say that a slot has stopped looking for work, though it lives: it is not counted as idle."""
        self._client.srem(self._keys("queue_idle", queue), life)

    @reaching()
    def wait_for_control(self, session: str, *, seconds: float) -> tuple[str, int] | None:
        """Wait until something that the session holds is to be stopped: (route, token), None in vain.

        A hint that may be lost: renewals tell the same.
        """
        found = self._client.blpop([self._keys("control", session)], timeout=seconds)
        return None if found is None else next(iter(_pairs([msgpack.unpackb(found[1])])))

    @reaching()
    def scheduler_leads(self) -> bool:
        """Whether some scheduler leads now, by the store's clock."""
        with self._client.pipeline(transaction=False) as pipe:
            pipe.hget(self._keys("leader"), "deadline")
            pipe.time()
            deadline, (seconds, micros) = pipe.execute()
        return bool(int(deadline or 0) > seconds * 1000 + micros // 1000)

    @reaching()
    def view(self) -> RegistryView:
        """Every queue with its allocation and catalogue, at one revision."""
        while True:
            before = self._revision()
            queues = self._queues()
            if self._revision() == before:
                return RegistryView(before, queues)

    @reaching()
    def revision(self) -> int:
        """The revision of the session registry."""
        return self._revision()

    @reaching()
    def list(self) -> list[SessionFacts]:
        """Every session that has not expired, by name."""
        names = self._client.zrange(self._keys("sessions"), 0, -1, withscores=True)
        with self._client.pipeline(transaction=False) as pipe:
            for name, _ in names:
                pipe.hgetall(self._keys("session", name.decode()))
            rows = pipe.execute()
        facts = [
            _session_facts(name.decode(), row, int(expiry))
            for (name, expiry), row in zip(names, rows, strict=True)
            if row
        ]
        return sorted(facts, key=lambda f: f.name)

    def _revision(self) -> int:
        return int(self._client.get(self._keys("registry")) or 0)

    def _queues(self) -> tuple[QueueFacts, ...]:
        names = sorted(raw.decode() for raw in self._client.smembers(self._keys("queues")))
        with self._client.pipeline(transaction=False) as pipe:
            for name in names:
                pipe.hmget(self._keys("queue", name), "pool", "allocation", "catalogue")
                pipe.scard(self._keys("queue_sessions", name))
                pipe.scard(self._keys("queue_idle", name))
                pipe.zcard(self._keys("waiting", name))
            rows = pipe.execute()
        facts = []
        for n, name in enumerate(names):
            if not rows[4 * n][0]:
                continue
            try:
                facts.append(self._facts(name, rows[4 * n : 4 * n + 4]))
            except Malformed as error:
                # It gets no work until its workers register again; the other queues go on (G17).
                log.error("%s", error)  # noqa: TRY400  # the sentence says it all
        return tuple(facts)

    @staticmethod
    def _facts(name: str, row: Sequence[Any]) -> QueueFacts:
        (pool, allocation, catalogue), sessions, idle, waiting = row
        where = f"queue {name}"
        try:
            return QueueFacts(
                name=name,
                pool=pool.decode(),
                allocation=Allocation.from_data(decode(allocation, where=where)),
                catalogue=Catalogue.from_data(decode(catalogue, where=where)),
                sessions=sessions,
                idle=idle,
                waiting=waiting,
            )
        except (KeyError, TypeError, AttributeError) as error:
            raise Malformed(f"{where}: its registry entry cannot be read; restart its workers") from error


def _pairs(raw: Iterable[Sequence[Any]]) -> frozenset[tuple[str, int]]:
    return frozenset((str(route), int(token)) for route, token in raw)


def _session_facts(name: str, row: Mapping[bytes, bytes], expires_at: int | None) -> SessionFacts:
    text = {key.decode(): value.decode() for key, value in row.items()}
    return SessionFacts(
        name=name,
        state=SessionState(text["state"]),
        generation=int(text["generation"]),
        pool=text["pool"],
        host=text["host"],
        pid=int(text["pid"]),
        queue=text["queue"],
        slots=int(text["slots"]),
        registered_at=int(text["registered_at"]),
        expires_at=expires_at,
    )
