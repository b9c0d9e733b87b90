"""`tenure list`: the executions of an instance, the newest first."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import click

from tenure.cli import describing
from tenure.cli.connecting import connect
from tenure.cli.output import (
    Cell,
    json_option,
    named,
    on_terminal,
    one_line,
    print_json,
    print_line,
    print_table,
)
from tenure.cli.target import Target, pass_target
from tenure.cli.words import took, when, when_shortly
from tenure.client.environment import Environment, EnvironmentStatus, environment_of
from tenure.errors import InvalidInput
from tenure.model.allocation import Allocation
from tenure.model.status import ExecutionStatus
from tenure.store.stored import StoredExecution

_ERROR_LENGTH: Final = 80
_NEEDS_LENGTH: Final = 40
#: Of these the needs are not known, and the table says so instead.
_UNKNOWN: Final = frozenset(
    {EnvironmentStatus.MALFORMED, EnvironmentStatus.UNSUPPORTED, EnvironmentStatus.UNRESOLVED}
)


@click.command("list", short_help="List the newest executions.")
@click.option(
    "--status", type=click.Choice([s.value for s in ExecutionStatus]), help="Only those of this status."
)
@click.option(
    "--compatible-with",
    metavar="FACTS",
    help="Only those of which a slot with this allocation could take something now: cpu=4,memory=16Gi. "
    "Other routes of them may run. What waits for a time, a signal or children is nothing to take, and what "
    "cannot be read is never listed.",
)
@click.option(
    "--include-unresolved",
    is_flag=True,
    help="With --compatible-with: also recipes whose demand was never published, because whoever started "
    "them did not know their code.",
)
@click.option("--limit", type=click.IntRange(min=1), default=100, show_default=True, help="At most so many.")
@click.option("--after", metavar="CURSOR", help="Go on behind this place, which the page before has shown.")
@json_option
@pass_target
def list_command(
    target: Target,
    *,
    status: str | None,
    compatible_with: str | None,
    include_unresolved: bool,
    limit: int,
    after: str | None,
    as_json: bool,
) -> None:
    """List the newest executions of the instance, with what they wait for.

    CREATED is in the time zone of this machine (TZ); in JSON all times are UTC.
    """
    if include_unresolved and compatible_with is None:
        raise click.UsageError("--include-unresolved is for --compatible-with, which is not given")
    allocation = None if compatible_with is None else _allocation(compatible_with)
    with connect(target) as client:
        page = client.page(
            status=status,
            compatible_with=allocation,
            include_unresolved=include_unresolved,
            limit=limit,
            after=after,
        )
    if as_json:
        print_json({"executions": [describing.header(one) for one in page.executions], "next": page.next})
        return
    if page.executions:
        _print(page.executions)
    else:
        conditions = [f"are {status}"] if status else []
        conditions += ["would fit"] if allocation else []
        asked = f" that {' and '.join(conditions)}" if conditions else ""
        print_line(f"instance {target.instance} has no {'more ' if after else ''}executions{asked}")
    if page.next is not None:
        click.echo(f"there are more; the same with --after {page.next} goes on behind these", err=True)


def _allocation(text: str) -> Allocation:
    try:
        return Allocation.parse(text)
    except InvalidInput as error:
        raise click.BadParameter(str(error), param_hint="--compatible-with") from error


def _print(executions: Sequence[StoredExecution]) -> None:
    print_table(
        ["id", "recipe", "status", "waiting for", "needs", "created", "took", "error"],
        [
            [
                one.id,
                f"{one.recipe}@{one.version}",
                named(one.status),
                named(one.reason),
                _needs(environment_of(one)),
                when_shortly(one.created_at) if on_terminal() else when(one.created_at),
                took(one.started_at, one.completed_at),
                one_line(one.error or "", _ERROR_LENGTH),
            ]
            for one in executions
        ],
    )


def _needs(environment: Environment) -> Cell:
    """What the routes that wait need, or why that cannot be said; each set of needs once."""
    if environment.status in _UNKNOWN:
        return named(environment.status)
    needs = dict.fromkeys(str(route.demand.needs) for route in environment.routes if route.demand.needs)
    return Cell(one_line("; ".join(filter(None, needs)), _NEEDS_LENGTH if on_terminal() else None))
