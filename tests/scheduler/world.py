"""A namespace whose agents and slots are only words: their calls are real, their processes are not."""

from __future__ import annotations

import secrets
from dataclasses import dataclass
from typing import Any

import redis

from tenure.engine.placement import Code, Placement
from tenure.model.allocation import Allocation
from tenure.model.demand import Demand
from tenure.model.needs import Needs
from tenure.model.status import RouteIndex
from tenure.store.answers import StartAnswer
from tenure.store.duties import Leading
from tenure.store.executions import NewExecution
from tenure.store.grants import Grant, Holder
from tenure.store.keys import RECIPE, route_member
from tenure.store.leases import SlotLeases
from tenure.store.sessions import Catalogue, Registration, Renewed
from tenure.store.stored import Record
from tenure.wiring import Store

INSTANCE = "default"
RECIPE_CODE = Code(recipe="book@1")


@dataclass(frozen=True)
class World:
    store: Store
    client: redis.Redis

    def pass_ms(self, ms: int) -> None:
        """Move the store's clock."""
        self.client.incrby(self.store.keys("clock"), ms)

    def pass_lease(self) -> None:
        self.pass_ms(int(self.store.settings.lease.total_seconds() * 1000) + 1)

    def restart_server(self) -> None:
        """What a restart looks like to the scheduler: the run id it recorded is not the server's."""
        self.client.hset(self.store.keys("server"), "run", "the run before")

    def lead(self, owner: str = "test") -> int:
        settings = self.store.settings
        standing = self.store.duties.lead(owner, lease=settings.leadership, grace=settings.lease)
        assert isinstance(standing, Leading)
        return standing.token

    def register(
        self,
        session: str,
        *,
        queue: str = "small",
        memory: str = "1Gi",
        recipes: tuple[str, ...] = ("book@1",),
    ) -> str:
        """Register an agent, and return its queue."""
        name = self.store.keys.queue_name("pool", queue)
        self.store.sessions.register(
            Registration(
                session=session,
                nonce=secrets.token_hex(4),
                pool="pool",
                host="host",
                boot="boot",
                pid=1,
                queue=name,
                slots=1,
                allocation=Allocation(memory=memory),
                catalogue=Catalogue(frozenset({"draw"}), frozenset(recipes)),
            ),
            lease_ms=self._lease_ms,
        )
        return name

    def renew(self, session: str) -> None:
        assert self.store.sessions.renew(session, 1, [], lease_ms=self._lease_ms) is not None

    def renew_lease(self, session: str, grant: Grant) -> Renewed | None:
        pairs = [(grant.route, grant.token, False)]
        return self.store.sessions.renew(session, 1, pairs, lease_ms=self._lease_ms)

    def start(self, execution: str, *, memory: str | None = None) -> None:
        view = self.store.placement.view()
        needs = Needs(memory=memory)
        candidates = Placement.candidates(view, needs, RECIPE_CODE)
        answer = self.start_with(execution, needs, candidates, registry=view.revision)
        assert answer is StartAnswer.CREATED

    def start_with(
        self, execution: str, needs: Needs, candidates: list[tuple[str, int]], *, registry: int
    ) -> StartAnswer:
        return self.store.executions.start(
            NewExecution(
                instance=INSTANCE,
                execution=execution,
                nonce=execution,
                recipe="book",
                version="1",
                input_hash="hash",
                params=b"",
                correlation="",
                band=1,
                demand=Demand(recipe=needs).published,
                job_needs="{}",
                candidates=candidates,
                registry=registry,
                crash_limit=3,
            )
        )

    def slot(self, session: str, queue: str) -> SlotLeases:
        return self.store.slot_leases(
            Holder(
                life=f"{session}:{secrets.token_hex(4)}",
                session=session,
                generation=1,
                queue=queue,
                run=self.store.run_id(),
                lease_ms=self._lease_ms,
            )
        )

    def claim(self, slot: SlotLeases) -> Grant:
        grant = slot.claim()
        assert grant is not None
        return grant

    def open_task(
        self, slot: SlotLeases, recipe: Grant, *, capability: str = "draw#1", effects: str = "repeatable"
    ) -> None:
        """Let the recipe open a task and wait for it."""
        slot.step(
            instance=recipe.instance,
            execution=recipe.execution,
            recipe={
                "frame": recipe.token,
                "token": recipe.token,
                "action": "suspend",
                "awaits": {"capability": capability},
                "open": {
                    "capability": capability,
                    "ordinal": 1,
                    "task": "draw",
                    "hash": "hash",
                    "effects": effects,
                    "demand": "{}",
                    "candidates": [[slot.holder.queue, 0]],
                    "crash_limit": 3,
                    "params": b"",
                },
            },
        )

    def claim_task(
        self, execution: str = "e", *, session: str = "agent", effects: str = "repeatable"
    ) -> tuple[SlotLeases, Grant]:
        """Start an execution, let its recipe open one task, and claim that."""
        slot = self.slot(session, self.register(session))
        self.start(execution)
        self.open_task(slot, self.claim(slot), effects=effects)
        return slot, self.claim(slot)

    def record(self, execution: str, capability: str = RECIPE) -> Record:
        stored = self.store.executions.get(INSTANCE, execution)
        assert stored is not None
        return stored.records[capability]

    def causes(self, execution: str) -> list[str]:
        """The causes of the attempts that were lost, oldest first."""
        stored = self.store.executions.get(INSTANCE, execution)
        assert stored is not None
        return [attempt["cause"] for attempt in stored.attempts]

    def indexes(self, execution: str, capability: str = RECIPE) -> set[str]:
        """Every index the route is in, whatever its record says; a waiting one by its queue."""
        route = route_member(INSTANCE, execution, capability)
        keys = self.store.keys
        found = {
            where.value
            for where in RouteIndex
            if where is not RouteIndex.WAITING and self.client.zscore(keys.index(where), route) is not None
        }
        queues = self.store.duties.queues()
        return found | {q for q in queues if self.client.zscore(keys("waiting", q), route) is not None}

    def tickets(self, queue: str) -> list[str]:
        """The RQ jobs of a queue, in order."""
        jobs: Any = self.client.lrange(self.store.keys("tickets", queue), 0, -1)
        return [job.decode() for job in jobs]

    def events(self, execution: str) -> list[str]:
        return [event.kind for event in self.store.events.read(INSTANCE, execution)]

    @property
    def _lease_ms(self) -> int:
        return int(self.store.settings.lease.total_seconds() * 1000)
