"""`tenure pools`: the classes of slots there are, what they have, and what they can run."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import groupby
from typing import Any

import click

from tenure.cli.connecting import connect
from tenure.cli.output import Cell, json_option, named, print_json, print_line, print_table
from tenure.cli.target import Target, pass_target
from tenure.model.allocation import Allocation
from tenure.model.status import SessionState
from tenure.store.sessions import QueueFacts, SessionFacts


@click.command(short_help="List what slots there are, and what they can run.")
@json_option
@pass_target
def pools(target: Target, *, as_json: bool) -> None:
    """List the queues of every pool: one for each class of slots of the same allocation and code."""
    with connect(target) as client:
        queues = client.store.sessions.view().queues
        sessions = client.store.sessions.list()
    grouped = groupby(sorted(queues, key=lambda q: (q.pool, q.name)), key=lambda q: q.pool)
    found = [
        {"pool": pool, "queues": [_data(queue, sessions) for queue in members]} for pool, members in grouped
    ]
    if as_json:
        print_json({"pools": found})
        return
    if not found:
        print_line(
            f"no worker has registered in namespace {target.namespace}; start one with `tenure worker`"
        )
        return
    print_table(
        ["pool", "queue", "allocation", "sessions", "slots", "idle", "waiting", "tasks", "recipes"],
        [_row(pool["pool"], queue) for pool in found for queue in pool["queues"]],
    )


def _data(queue: QueueFacts, sessions: Sequence[SessionFacts]) -> dict[str, Any]:
    ready = [s for s in sessions if s.queue == queue.name and s.state is SessionState.READY]
    return {
        "queue": queue.name,
        "allocation": queue.allocation.to_data(),
        "sessions": queue.sessions,
        "slots": sum(session.slots for session in ready),
        "idle": queue.idle,
        "waiting": queue.waiting,
        **queue.catalogue.to_data(),
    }


def _row(pool: str, queue: dict[str, Any]) -> list[str | Cell]:
    return [
        pool,
        queue["queue"],
        str(Allocation.from_data(queue["allocation"])) or "(unspecified)",
        str(queue["sessions"]) if queue["sessions"] else named("gone"),
        str(queue["slots"]),
        str(queue["idle"]),
        str(queue["waiting"]),
        " ".join(queue["tasks"]),
        " ".join(queue["recipes"]),
    ]
