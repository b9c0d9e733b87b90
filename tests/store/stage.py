"""Slots at the level of the store: every call is real, and what a recipe would decide is written out."""

from __future__ import annotations

import secrets
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import msgpack
import redis

from tenure.model.allocation import Allocation
from tenure.store.answers import StartAnswer
from tenure.store.duties import Leading
from tenure.store.events import Event
from tenure.store.executions import NewExecution
from tenure.store.grants import Grant, Holder, StepReply
from tenure.store.keys import RECIPE
from tenure.store.leases import SlotLeases
from tenure.store.sessions import Catalogue, Registration
from tenure.store.stored import Record, StoredExecution
from tenure.wiring import Store

INSTANCE = "default"


@dataclass(frozen=True)
class Stage:
    """One namespace. Times are those of the store's clock, which the stage moves."""

    store: Store
    client: redis.Redis

    @property
    def lease_ms(self) -> int:
        return int(self.store.settings.lease.total_seconds() * 1000)

    def queue(self, name: str = "small") -> str:
        return self.store.keys.queue_name("pool", name)

    def pass_ms(self, ms: int) -> None:
        self.client.incrby(self.store.keys("clock"), ms)

    def let_leases_lapse(self) -> None:
        self.pass_ms(self.lease_ms + 1)

    def lead(self) -> int:
        standing = self.store.duties.lead(
            "test", lease=self.store.settings.leadership, grace=self.store.settings.lease
        )
        assert isinstance(standing, Leading)
        return standing.token

    def register(self, session: str = "agent", queue: str = "small") -> int:
        """Register a session, and return its generation."""
        return self.store.sessions.register(
            Registration(
                session=session,
                nonce=secrets.token_hex(4),
                pool="pool",
                host="host",
                boot="boot",
                pid=1,
                queue=self.queue(queue),
                slots=1,
                allocation=Allocation(),
                catalogue=Catalogue(frozenset({"draw"}), frozenset({"book@1"})),
            ),
            lease_ms=self.lease_ms,
        )

    def slot(
        self, life: str | None = None, *, session: str = "agent", generation: int = 1, queue: str = "small"
    ) -> SlotLeases:
        return self.store.slot_leases(
            Holder(
                life=life or secrets.token_hex(4),
                session=session,
                generation=generation,
                queue=self.queue(queue),
                run=self.store.run_id(),
                lease_ms=self.lease_ms,
            )
        )

    def start(
        self,
        execution: str = "e",
        *,
        queues: Iterable[str] = ("small",),
        nonce: str | None = None,
        input_hash: str = "hash",
        band: int = 4,
        crash_limit: int = 3,
        deadline: int | None = None,
    ) -> StartAnswer:
        return self.store.executions.start(
            NewExecution(
                instance=INSTANCE,
                execution=execution,
                nonce=nonce or secrets.token_hex(4),
                recipe="book",
                version="1",
                input_hash=input_hash,
                params=b"\x01\x80",
                correlation="",
                band=band,
                demand="{}",
                job_needs="{}",
                candidates=[(self.queue(name), 0) for name in queues],
                registry=self.store.sessions.revision(),
                crash_limit=crash_limit,
                deadline=deadline,
            )
        )

    def claim(self, slot: SlotLeases) -> Grant:
        grant = slot.claim()
        assert grant is not None
        return grant

    def recipe_leased(self, execution: str = "e", **start: Any) -> tuple[SlotLeases, Grant]:
        """A session, an execution, and a slot that holds its recipe lease."""
        generation = self.register()
        assert self.start(execution, **start) is StartAnswer.CREATED
        slot = self.slot(generation=generation)
        return slot, self.claim(slot)

    def task_leased(self, *, started: bool = True, effects: str = "repeatable") -> tuple[SlotLeases, Grant]:
        """As `recipe_leased`; then the recipe waits for a task, which the slot has claimed."""
        slot, recipe = self.recipe_leased()
        self.suspend(slot, recipe, self.spec(0, effects=effects))
        grant = self.claim(slot)
        if started:
            slot.mark_started(grant)
        return slot, grant

    def spec(
        self,
        ordinal: int,
        *,
        effects: str = "repeatable",
        queues: Iterable[str] = ("small",),
        crash_limit: int = 3,
    ) -> dict[str, Any]:
        """A task call as a recipe opens it."""
        return {
            "capability": f"{ordinal}:draw",
            "ordinal": ordinal,
            "task": "draw",
            "hash": "hash",
            "effects": effects,
            "demand": "{}",
            "candidates": [[self.queue(name), 0] for name in queues],
            "crash_limit": crash_limit,
            "params": b"\x01\x80",
        }

    def suspend(
        self, slot: SlotLeases, recipe: Grant, spec: dict[str, Any], *, claim: bool = False
    ) -> StepReply:
        """Let the recipe open a task and wait for it."""
        awaits = {"capability": spec["capability"]}
        return self.advance(slot, recipe, "suspend", open=spec, awaits=awaits, claim=claim)

    def open_map(
        self, slot: SlotLeases, recipe: Grant, size: int, *, window: int = 2, ordinal: int = 0, **spec: Any
    ) -> None:
        """Let the recipe open a map and wait for it."""
        group = self.group(self.spec(ordinal, **spec), size=size, window=window)
        self.advance(slot, recipe, "suspend", group=group, awaits={"group": ordinal})

    @staticmethod
    def group(template: dict[str, Any], *, size: int, window: int) -> dict[str, Any]:
        """A map as a recipe opens it; its members are like `template`."""
        return {
            "capability": template["capability"],
            "ordinal": template["ordinal"],
            "hash": "hash",
            "prefix": f"{template['capability']}:",
            "size": size,
            "window": window,
            "template": template,
        }

    def advance(
        self, slot: SlotLeases, recipe: Grant, action: str, *, claim: bool = False, **fields: Any
    ) -> StepReply:
        """One step of a recipe that holds its lease and has nothing to settle."""
        return slot.step(
            instance=INSTANCE,
            execution=recipe.execution,
            recipe={"frame": recipe.token, "token": recipe.token, "action": action, **fields},
            claim=claim,
        )

    def settle(
        self, slot: SlotLeases, grant: Grant, status: str = "completed", *, claim: bool = False, **fields: Any
    ) -> StepReply:
        """Settle a task as its slot would, without a recipe."""
        return slot.step(
            instance=INSTANCE,
            execution=grant.execution,
            settle={
                "capability": grant.capability,
                "token": grant.token,
                "status": status,
                "outcome": status,
                **({"result": b"\x01\x2a"} if status == "completed" else {"error": "it broke"}),
                **fields,
            },
            claim=claim,
        )

    def stored(self, execution: str = "e") -> StoredExecution:
        found = self.store.executions.get(INSTANCE, execution)
        assert found is not None
        return found

    def record(self, execution: str = "e", capability: str = RECIPE) -> Record:
        return self.stored(execution).records[capability]

    def edit_record(self, execution: str, capability: str, **fields: Any) -> None:
        """Change a record by hand, as a failover that lost a write might; None takes a field away."""
        record = {**self.record(execution, capability), **fields}
        kept = {name: value for name, value in record.items() if value is not None}
        packed = msgpack.packb(kept, use_bin_type=False, unicode_errors="surrogateescape")
        self.client.hset(self.store.keys("records", INSTANCE, execution), capability, packed)

    def flight(self, execution: str = "e") -> set[str]:
        members: Any = self.client.smembers(self.store.keys("in_flight", INSTANCE, execution))
        return {member.decode() for member in members}

    def events(self, execution: str = "e") -> list[Event]:
        return self.store.events.read(INSTANCE, execution)

    def dump(self, *, without: Iterable[str] = ()) -> dict[str, Any]:
        """Every key of the namespace with its value; of the families in `without`, members but no times."""
        timed = {self.store.keys(family) for family in without}
        return {key: self._value(key, timed=key in timed) for key in self._keys()}

    def _keys(self) -> list[str]:
        namespace = self.store.namespace
        patterns = (f"{namespace}:*", f"rq:queue:{namespace}-*", f"rq:job:{namespace}-*")
        return sorted(
            key.decode() for pattern in patterns for key in self.client.scan_iter(pattern, count=1000)
        )

    def _value(self, key: str, *, timed: bool) -> Any:
        kind: Any = self.client.type(key)
        read: dict[bytes, Any] = {
            b"string": self.client.get,
            b"hash": self.client.hgetall,
            b"set": self.client.smembers,
            b"list": lambda name: self.client.lrange(name, 0, -1),
            b"zset": lambda name: self.client.zrange(name, 0, -1, withscores=not timed),
            b"stream": self.client.xrange,
        }
        value = read[kind](key)
        if timed and kind == b"hash":
            value.pop(b"deadline")
        return value
