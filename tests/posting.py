"""Posting to the outbox, by the fragment that scripts post with."""

from __future__ import annotations

import json
from typing import Any

import msgpack

from tenure.store.scripts import assemble
from tenure.transport import tickets
from tenure.wiring import Store

BODY = {"kind": "environment_required", "demand": {"memory": "64Gi"}, "queue": "ü\n"}


def post(
    store: Store, body: object = BODY, *, execution: str = "e", instance: str = "default", text: str = ""
) -> str:
    """Post an event by a script that does nothing else; returns its id. With `text`, that is its body."""
    fragment = assemble("_outbox", store.keys, tickets.shape(store.namespace), test_clock=True)
    event = {"instance": instance, "execution": execution, "body": text or json.dumps(body)}
    client: Any = store.client
    source = f"{fragment}\nreturn post(a.instance, a.execution, a.body)"
    return str(client.eval(source, 0, msgpack.packb(event)).decode())


def damage(store: Store, event_id: str, raw: bytes = b"\xc1 no msgpack") -> None:
    """Put bytes in an event's place that nobody can read."""
    store.client.hset(store.keys("outbox_event"), event_id, raw)


def waiting(store: Store) -> list[str]:
    """Ids of the events that are to be delivered, now or later."""
    return store.duties.page("outbox", limit=1000)


def kept(store: Store) -> dict[str, bytes]:
    """Every event of which something is stored."""
    client: Any = store.client
    return {one.decode(): raw for one, raw in client.hgetall(store.keys("outbox_event")).items()}
