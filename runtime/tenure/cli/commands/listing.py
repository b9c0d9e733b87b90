"""`tenure list`: the newest executions of an instance."""

from __future__ import annotations

import click

from tenure.cli import describing
from tenure.cli.connecting import connect
from tenure.cli.output import json_option, named, on_terminal, one_line, print_json, print_line, print_table
from tenure.cli.target import Target, pass_target
from tenure.cli.words import took, when, when_shortly
from tenure.model.status import ExecutionStatus

_ERROR_LENGTH = 80


@click.command("list", short_help="List the newest executions.")
@click.option(
    "--status", type=click.Choice([s.value for s in ExecutionStatus]), help="Only those of this status."
)
@click.option("--limit", type=click.IntRange(min=1), default=100, show_default=True, help="At most so many.")
@json_option
@pass_target
def list_command(target: Target, *, status: str | None, limit: int, as_json: bool) -> None:
    """List the newest executions of the instance, with what they wait for."""
    with connect(target) as client:
        found = [describing.header(stored) for stored in client.list(status=status, limit=limit)]
    if as_json:
        print_json({"executions": found})
        return
    if not found:
        print_line(
            f"instance {target.instance} has no executions" + (f" that are {status}" if status else "")
        )
        return
    print_table(
        ["id", "recipe", "status", "waiting for", "created", "took", "error"],
        [
            [
                row["id"],
                f"{row['recipe']}@{row['version']}",
                named(row["status"]),
                named(row["reason"]),
                when_shortly(row["created_at"]) if on_terminal() else when(row["created_at"]),
                took(row["started_at"], row["completed_at"]),
                one_line(row["error"] or "", _ERROR_LENGTH),
            ]
            for row in found
        ],
    )
    if len(found) == limit and on_terminal():
        click.echo(f"there may be more than these {limit}; --limit shows them", err=True)
