"""A namespace whose slots work in this process, so that tests see what user code does."""

from __future__ import annotations

import itertools
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any, Protocol

import msgpack
import redis

from tenure import Client, Handle
from tenure.engine.definitions import Definitions, RecipeDefinition, TaskDefinition
from tenure.engine.driver import Driver
from tenure.engine.handoff import HandoffEvent
from tenure.engine.placement import wanted_by
from tenure.engine.presence import Phase, Unwatched
from tenure.errors import Malformed, Unconfirmed
from tenure.model.allocation import Allocation
from tenure.model.status import SessionState
from tenure.store.duties import Leading
from tenure.store.keys import RECIPE, split_member
from tenure.store.stored import Record
from tenure.wiring import Store
from tests.harness import queue_of, working_slot

INSTANCE = "default"

_numbers = itertools.count()

Definition = TaskDefinition[..., Any] | RecipeDefinition[Any]


class OpenSite(Protocol):
    def __call__(self, at: str = ..., **settings: object) -> Site: ...


@dataclass
class Switch(Unwatched):
    """A presence whose agent drains when the test says so; it notes what the slot has shown."""

    drains: bool = False
    shown: list[tuple[Phase, tuple[tuple[str, int, bool], ...]]] = field(default_factory=list)

    def show(
        self, phase: Phase, leases: Sequence[tuple[str, int, bool]], *, timeout: timedelta | None = None
    ) -> None:
        self.shown.append((phase, tuple(leases)))

    def draining(self) -> bool:
        return self.drains


@dataclass
class Site:
    store: Store
    redis: redis.Redis

    @property
    def client(self) -> Client:
        return Client(store=self.store)

    def slot(
        self,
        *definitions: Definition,
        allocation: Allocation | None = None,
        presence: Switch | None = None,
        pool: str = "p",
        on_handoff: Callable[[HandoffEvent], None] | None = None,
    ) -> Driver:
        """A slot of a session of its own. Parked work that it can do is placed, as a scheduler would."""
        number = next(_numbers)
        driver = working_slot(
            self.store,
            Definitions.of(definitions),
            allocation=allocation or Allocation(),
            pool=pool,
            session=f"s{number}",
            life=f"l{number}",
            presence=presence or Switch(),
            on_handoff=on_handoff,
        )
        self.place_parked()
        return driver

    def place_parked(self) -> None:
        """What the scheduler's placement does, in one round."""
        duties, placement, leader = self.store.duties, self.store.placement, self.lead()
        view = placement.view()
        members = duties.page("environment", limit=100)
        for member, read in zip(
            members, self.store.executions.routes([split_member(one) for one in members]), strict=True
        ):
            if isinstance(read, Malformed):
                raise read
            record, code = read
            assert record is not None
            _, execution, capability = split_member(member)
            wanted = wanted_by(execution, capability, record, recipe=code)
            candidates = placement.candidates(view, wanted.needs, wanted.code)
            duties.place(leader, member, candidates, registry=view.revision)

    def queue(self, *definitions: Definition, allocation: Allocation | None = None, pool: str = "p") -> str:
        return queue_of(
            self.store, Definitions.of(definitions), allocation=allocation or Allocation(), pool=pool
        )

    def run(self, recipe: RecipeDefinition[Any], *args: Any, **kwargs: Any) -> Handle:
        """Start an execution; nothing works on it yet."""
        return self.client.start(recipe, *args, **kwargs)

    def bury(self, slot: Driver, *, charge: str | None = "task") -> None:
        """The agent of a dead slot gives back what it held."""
        holder = slot._bench.leases.holder
        self.store.sessions.abandon(
            holder.life, holder.queue, cause="killed by SIGKILL", charge=charge, run=holder.run
        )

    def retire(self, slot: Driver) -> None:
        """The session of a slot goes, as its agent says when it stops."""
        holder = slot._bench.leases.holder
        self.store.sessions.retire(holder.session, holder.generation, SessionState.GONE)

    def die_in(self, slot: Driver) -> None:
        """Let a slot work until its task vanishes it, and bury it."""
        try:
            slot.drain()
        except Unconfirmed:
            self.bury(slot)
        else:
            raise AssertionError("no task of this slot has vanished it")

    def lead(self) -> int:
        settings = self.store.settings
        standing = self.store.duties.lead("test", lease=settings.leadership, grace=settings.lease)
        assert isinstance(standing, Leading)
        return standing.token

    def pass_ms(self, ms: int) -> None:
        self.redis.incrby(self.store.keys("clock"), ms)

    def record(self, handle: Handle, capability: str = RECIPE) -> Record:
        return handle.snapshot().records[capability]

    def statuses(self, handle: Handle) -> dict[str, str]:
        return {name: record["status"] for name, record in handle.snapshot().capabilities.items()}

    def kinds(self, handle: Handle, capability: str = RECIPE) -> list[str]:
        """What has happened to one route, as kinds of events."""
        return [event.kind for event in handle.events() if event.capability == capability]

    def edit_record(self, handle: Handle, capability: str = RECIPE, **fields: Any) -> None:
        """Change a record by hand; None takes a field away."""
        record = {**self.record(handle, capability), **fields}
        kept = {name: value for name, value in record.items() if value is not None}
        packed = msgpack.packb(kept, use_bin_type=False, unicode_errors="surrogateescape")
        self.redis.hset(self.store.keys("records", INSTANCE, handle.id), capability, packed)

    def put_back(self, handle: Handle, capability: str = RECIPE) -> None:
        """Put a route that was blocked back among those that wait, as an operator would."""
        self.redis.zrem(self.store.keys("blocked"), f"{INSTANCE}/{handle.id}/{capability}")
        self.edit_record(handle, capability, where=None, error=None)
        lease = self.store.settings.lease
        assert self.store.duties.repair(self.lead(), f"{INSTANCE}/{handle.id}", lease=lease) == [capability]


@contextmanager
def working(slot: Driver) -> Iterator[threading.Thread]:
    """A slot that works in a thread of its own; leaving waits until it has nothing to do."""
    failures: list[BaseException] = []

    def drain() -> None:
        try:
            slot.drain()
        except BaseException as error:  # noqa: BLE001  # for the test to raise
            failures.append(error)

    thread = threading.Thread(target=drain, daemon=True)
    thread.start()
    yield thread
    thread.join(30)
    assert not thread.is_alive(), "the slot still works"
    if failures:
        raise failures[0]
