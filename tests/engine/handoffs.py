"""What has been told of handoffs, and a slot that asks for a route by name."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

import msgpack

from tenure import Handle
from tenure.engine.driver import Driver
from tenure.engine.handoff import HandoffEvent
from tenure.store.events import Event
from tenure.store.keys import route_member
from tenure.wiring import Store
from tests.engine.site import INSTANCE


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
