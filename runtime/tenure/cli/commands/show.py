"""`tenure show`: one execution as it is stored."""

from __future__ import annotations

import json
from typing import Any

import click

from tenure.cli import describing
from tenure.cli.connecting import connect
from tenure.cli.describing import Data, MapSummary
from tenure.cli.output import (
    Cell,
    json_option,
    jsonable,
    named,
    on_terminal,
    one_line,
    print_facts,
    print_json,
    print_line,
    print_table,
)
from tenure.cli.target import Target, pass_target
from tenure.cli.words import amount, handed_off, place, progress, took, when
from tenure.client.environment import EnvironmentStatus, RouteDemand, route_demand
from tenure.client.handle import Handle
from tenure.errors import Malformed
from tenure.model.needs import Needs
from tenure.model.status import ExecutionStatus
from tenure.store.stored import StoredExecution

#: Longer lists are summed up unless all is asked for.
SHORT = 10
_ERROR_LENGTH, _RESULT_LENGTH = 200, 4000


@click.command(short_help="Show one execution: its state, tasks and attempts.")
@click.argument("execution", metavar="ID")
@click.option("--all", "everything", is_flag=True, help="Every item of every map, every attempt, all texts.")
@json_option
@pass_target
def show(target: Target, *, execution: str, everything: bool, as_json: bool) -> None:
    """Show the execution ID: its state, its tasks, the attempts that did not complete, its result.

    Maps of many items are summed up. JSON always has all of them.
    """
    with connect(target) as client:
        handle = client.get(execution)
        stored = handle.snapshot()
        result, unreadable = _result(handle, stored)
    data = describing.execution(stored, result)
    if as_json:
        print_json(data)
    else:
        _print(stored, data, everything=everything)
    if unreadable:
        # Said last, so that it does not keep the rest from whoever looks for the reason.
        raise unreadable


def _result(handle: Handle, stored: StoredExecution) -> tuple[Any, Malformed | None]:
    if stored.status is not ExecutionStatus.COMPLETED:
        return None, None
    try:
        return handle.result(), None
    except Malformed as error:
        return None, error


def _print(stored: StoredExecution, data: Data, *, everything: bool) -> None:
    print_facts(_facts(data))
    if stored.records:
        print_line()
        print_table(
            ["task", "status", "attempt", "where", "progress", "took", "error"],
            _rows(stored, data, everything=everything),
        )
    _print_demands(stored, everything=everything)
    _print_attempts(data["attempts"], everything=everything)
    if stored.status is ExecutionStatus.COMPLETED:
        _print_result(data["result"], everything=everything)


def _facts(data: Data) -> dict[str, str | Cell]:
    return {
        "execution": Cell(data["id"], "bold"),
        "recipe": f"{data['recipe']}@{data['version']}",
        "status": named(data["status"]),
        "waiting for": named(data["reason"]),
        "instance": data["instance"],
        "correlation": data["correlation"] if data["correlation"] != data["id"] else "",
        "priority": str(data["priority"]),
        "needs": str(Needs.from_data(data["needs"])),
        "created": when(data["created_at"]),
        "started": when(data["started_at"]),
        "ended": when(data["completed_at"]),
        "took": took(data["started_at"], data["completed_at"]),
        "error": Cell(data["error"] or "", "red"),
    }


def _rows(stored: StoredExecution, data: Data, *, everything: bool) -> list[list[str | Cell]]:
    """The recipe's own route, then its calls in order; the items of a long map only as its one row."""
    maps = describing.maps(stored)
    summed_up = set() if everything else {one.ordinal for one in maps if one.size > SHORT}
    rows = {(one.ordinal, -1): _summary_row(one) for one in maps}
    for capability in data["capabilities"]:
        ordinal, index = capability["ordinal"], capability["index"]
        if index is None:
            rows[ordinal, -1] = _row(capability, everything=everything)
        elif ordinal not in summed_up:
            rows[ordinal, index] = _row(capability, everything=everything)
    return [_row(data["recipe_route"], everything=everything), *(rows[key] for key in sorted(rows))]


def _row(capability: Data, *, everything: bool) -> list[str | Cell]:
    reported = capability["progress"]
    return [
        capability["capability"],
        named("unknown" if capability["invocation"] == "unknown" else capability["status"]),
        str(capability["attempt"] or ""),
        place(capability),
        progress(list(reported.values()) if reported else None, bar=on_terminal()),
        took(capability["started_at"], capability["completed_at"]),
        one_line(capability["error"] or "", None if everything else _ERROR_LENGTH),
    ]


def _summary_row(summary: MapSummary) -> list[str | Cell]:
    completed = summary.counts.get("completed", 0)
    bar = progress([completed, summary.size], bar=on_terminal())
    return [
        summary.capability,
        named(summary.status),
        "",
        str(summary),
        bar,
        "",
        one_line(summary.error or "", _ERROR_LENGTH),
    ]


def _print_demands(stored: StoredExecution, *, everything: bool) -> None:
    """What routes demand and who asks for it; of those that have an outcome only if all is asked for."""
    found = [
        route_demand(stored, name)
        for name, record in describing.in_order(stored)
        if describing.has_demand(name, record) and (everything or record.get("where"))
    ]
    told = [
        one for one in found if one.status is not EnvironmentStatus.UNSPECIFIED or one.handed_off is not None
    ]
    if not told:
        return
    shown = told if everything else told[:SHORT]
    print_line()
    print_table(
        ["task", "demand", "revision", "needs", "handed off by a slot with"],
        [
            [
                one.capability,
                named(one.status),
                str(one.revision or ""),
                _demanded(one, everything=everything),
                handed_off(one.handed_off),
            ]
            for one in shown
        ],
        title="what it demands of slots",
    )
    if hidden := len(told) - len(shown):
        print_line(f"and {amount(hidden, 'more route')}; --all shows them")


def _demanded(demand: RouteDemand, *, everything: bool) -> str:
    if demand.needs is not None:
        return str(demand)
    return one_line(demand.error or "", None if everything else _ERROR_LENGTH)


def _print_attempts(attempts: list[Data], *, everything: bool) -> None:
    if not attempts:
        return
    shown = attempts if everything else attempts[-SHORT:]
    hidden = len(attempts) - len(shown)
    print_line()
    print_table(
        ["task", "attempt", "ended as", "at", "after", "session", "cause"],
        [
            [
                one["capability"] or "",
                str(one["attempt"] or ""),
                named(one["outcome"]),
                when(one["ended_at"]),
                took(one["started_at"], one["ended_at"]),
                one["session"] or "",
                one_line(one["cause"] or "", None if everything else _ERROR_LENGTH),
            ]
            for one in shown
        ],
        title="attempts that did not complete",
    )
    if hidden:
        print_line(f"and {amount(hidden, 'earlier attempt')}; --all shows them")


def _print_result(result: Any, *, everything: bool) -> None:
    text = json.dumps(jsonable(result), indent=2, ensure_ascii=False)
    print_line()
    print_line(Cell("result", "bold"))
    if everything or len(text) <= _RESULT_LENGTH:
        print_line(text)
    else:
        print_line(text[:_RESULT_LENGTH])
        print_line(f"… and {amount(len(text) - _RESULT_LENGTH, 'character')} more; --all shows them")
