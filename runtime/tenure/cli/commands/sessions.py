"""`tenure sessions`: the agents as the store knows them."""

from __future__ import annotations

from typing import Any

import click

from tenure.cli.connecting import connect
from tenure.cli.output import json_option, named, print_json, print_line, print_table
from tenure.cli.target import Target, pass_target
from tenure.cli.words import when
from tenure.store.sessions import SessionFacts
from tenure.store.stored import moment


@click.command(short_help="List the agents that have registered.")
@json_option
@pass_target
def sessions(target: Target, *, as_json: bool) -> None:
    """List the agents that have registered and are not gone, by name."""
    with connect(target) as client:
        found = [_data(session) for session in client.store.sessions.list()]
    if as_json:
        print_json({"sessions": found})
        return
    if not found:
        print_line(
            f"no worker has registered in namespace {target.namespace}; start one with `tenure worker`"
        )
        return
    print_table(
        ["session", "state", "pool", "slots", "host", "pid", "life", "registered", "lease until", "queue"],
        [
            [
                one["session"],
                named(one["state"]),
                one["pool"],
                str(one["slots"]),
                one["host"],
                str(one["pid"]),
                str(one["generation"]),
                when(one["registered_at"]),
                when(one["expires_at"]),
                one["queue"],
            ]
            for one in found
        ],
    )


def _data(session: SessionFacts) -> dict[str, Any]:
    return {
        "session": session.name,
        "state": session.state.value,
        "generation": session.generation,
        "pool": session.pool,
        "host": session.host,
        "pid": session.pid,
        "queue": session.queue,
        "slots": session.slots,
        "registered_at": moment(session.registered_at),
        "expires_at": None if session.expires_at is None else moment(session.expires_at),
    }
