"""What has been told of handoffs, and a slot that asks for a route by name."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

import msgpack

from tenure import Handle
from tenure.engine.definitions import RecipeDefinition
from tenure.engine.driver import Driver
from tenure.engine.handoff import HandoffEvent
from tenure.model.demand import Demand
from tenure.store.events import Event
from tenure.store.executions import NewExecution
from tenure.store.keys import route_member
from tenure.store.leases import SlotLeases
from tenure.wiring import Store
from tests.engine.site import INSTANCE, Site


def posted(store: Store, handle: Handle) -> list[dict[str, Any]]:
    """The environment events of one execution in the outbox, oldest first."""
    client: Any = store.client
    stored = {int(number): raw for number, raw in client.hgetall(store.keys("outbox_event")).items()}
    assert {int(number) for number in client.zrange(store.keys("outbox"), 0, -1)} == set(stored)
    entries = [msgpack.unpackb(stored[number]) for number in sorted(stored)]
    return [json.loads(entry["body"]) for entry in entries if entry["execution"] == handle.id]


def handed_off(handle: Handle) -> list[Event]:
    """The handoffs in the execution's own log."""
    return [event for event in handle.events() if event.kind == "handoff"]


def nothing_told(store: Store, handle: Handle, told: Sequence[HandoffEvent]) -> bool:
    """Whether no handoff was told of: not in the log, nor to the outbox, nor to `on_handoff`."""
    return not (told or handed_off(handle) or posted(store, handle))


def ask_for(slot: Driver, handle: Handle, capability: str) -> str:
    """Claim a route by name and act on it, and on nothing else; returns the route that was granted."""
    slot._bench.begin_turn(claims=False)
    grant = slot._bench.leases.claim(target=route_member(INSTANCE, handle.id, capability))
    assert grant is not None
    slot._work(grant)
    return grant.capability


def leases_of(slot: Driver) -> SlotLeases:
    """The lease calls of a slot."""
    return slot._bench.leases


def start_in(
    site: Site,
    slots: Sequence[Driver],
    definition: RecipeDefinition[Any],
    *,
    published: bool = True,
) -> Handle:
    """Start an execution as a placement would that mistakes what these slots have, or knows no demand."""
    answer = site.store.executions.start(
        NewExecution(
            instance=INSTANCE,
            execution="e",
            nonce="n",
            recipe=definition.name,
            version=definition.version,
            input_hash="hash",
            params=b"\x01\x80",
            correlation="e",
            band=4,
            demand=Demand(recipe=definition.needs).published if published else None,
            job_needs="{}",
            candidates=[(leases_of(slot).holder.queue, rank) for rank, slot in enumerate(slots)],
            registry=site.store.sessions.revision(),
            crash_limit=3,
        )
    )
    assert answer == "created"
    return site.client.get("e")
