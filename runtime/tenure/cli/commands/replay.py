"""`tenure replay`: what the code as it is now makes of what is stored, without touching it (G13)."""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import click

from tenure.cli.connecting import connect
from tenure.cli.diverting import application_output
from tenure.cli.failures import ExitCode, show_where
from tenure.cli.importing import import_option, look_here
from tenure.cli.output import (
    Cell,
    json_option,
    named,
    one_line,
    print_facts,
    print_json,
    print_line,
    print_table,
)
from tenure.cli.target import Target, pass_target
from tenure.cli.words import amount
from tenure.client.client import Client
from tenure.client.replaying import Check, Verdict, check, check_running, read, recipe_of
from tenure.engine.definitions import Definitions, find_recipe, import_modules, load_modules
from tenure.engine.replay import ReplayedCall
from tenure.errors import UnknownRecipe
from tenure.model.demand import nested

_LENGTH = 200


@click.command(short_help="Replay an execution, or all that run, with the code as it is now; writes nothing.")
@click.argument("execution", metavar="ID", required=False)
@click.option(
    "--all-running",
    is_flag=True,
    help="Every execution of the namespace that runs, or of one --instance: would this code break any?",
)
@click.option(
    "--recipe",
    "recipes",
    metavar="NAME",
    multiple=True,
    help="With --all-running: executions of this recipe only, of any version. May be repeated.",
)
@click.option("--values", is_flag=True, help="Show what each call asked with and what is recorded for it.")
@import_option("A module with recipes, also from the current folder. May be repeated.")
@json_option
@pass_target
def replay(
    target: Target,
    *,
    execution: str | None,
    all_running: bool,
    recipes: Sequence[str],
    values: bool,
    modules: Sequence[str],
    as_json: bool,
) -> None:
    """Run the recipe of the execution ID over what is recorded, and say where that ends.

    No task runs, nothing is written and nothing is waited for; the recipe's own code does run. Exit code 0 if
    it comes to the recorded end, or to where the execution stands; 1 if it asks for something else, ends
    otherwise, or raises; 2 if the recipe's code is not in the modules imported.

    With --all-running, before a deploy: exit code 1 if any execution that runs could not go on with the code.
    Where recipes are deployed apart, --recipe names those of this deploy; what cannot be read is told anyway.
    """
    if all_running == (execution is not None):
        raise click.UsageError("give either the ID of an execution, or --all-running for every one that runs")
    if recipes and not all_running:
        raise click.UsageError("--recipe goes with --all-running")
    if values and all_running:
        raise click.UsageError("--values goes with the ID of an execution")
    look_here()
    with connect(target) as client:
        if execution is None:
            breaks = _replay_running(client, target, modules, recipes, as_json=as_json)
        else:
            breaks = _replay_one(client, execution, modules, values=values, as_json=as_json)
    if breaks:
        sys.exit(ExitCode.FAILED)


def _replay_one(
    client: Client, execution: str, modules: Sequence[str], *, values: bool, as_json: bool
) -> bool:
    with application_output():
        imported = import_modules(modules)
    calls: list[ReplayedCall] = []
    recording = read(client.store, client.instance, execution)
    given = find_recipe(recording.code, modules=imported) if recording.code else None
    definition = recipe_of(recording, given)
    with application_output():
        checked = check(
            recording, definition, observer=calls.append, payload_limit=client.store.settings.payload
        )
    if checked.verdict.breaks and checked.error is not None:
        show_where(checked.error)
    if as_json:
        print_json({**_row(checked), "calls": [_call(one, values=values) for one in calls]})
    else:
        _print_one(checked, calls, values=values)
    return checked.verdict.breaks


def _replay_running(
    client: Client, target: Target, modules: Sequence[str], recipes: Sequence[str], *, as_json: bool
) -> bool:
    instance = client.instance if target.names_instance else None
    with application_output():
        definitions = load_modules(modules)
    _check_imported(definitions, recipes)
    with application_output():
        checks = check_running(client.store, definitions, instance=instance, recipes=recipes)
        rows = [_row(one) for one in checks]
    counts = Counter(row["verdict"] for row in rows)
    if as_json:
        print_json({"executions": rows, "counts": {verdict.value: counts[verdict] for verdict in Verdict}})
    else:
        place = f"namespace {target.namespace}" if instance is None else f"instance {instance}"
        _print_running(place, rows, counts)
    return any(verdict.breaks for verdict in Verdict if counts[verdict])


def _check_imported(definitions: Definitions, recipes: Sequence[str]) -> None:
    if not definitions.recipes:
        raise UnknownRecipe("no recipe is known here; name the module that is to be deployed with --import")
    names = {one.name for one in definitions.recipes.values()}
    # A name that is misspelt would select nothing, and nothing would break.
    if missing := [name for name in recipes if name not in names]:
        raise UnknownRecipe(
            f"no version of recipe {missing[0]} is imported; name its module with --import. "
            f"Imported: {', '.join(sorted(names))}"
        )


def _row(checked: Check) -> dict[str, Any]:
    return {
        "instance": checked.instance,
        "id": checked.execution,
        "recipe": checked.recipe,
        "status": checked.status.value if checked.status else None,
        "verdict": checked.verdict.value,
        "detail": checked.detail,
        "capability": checked.capability,
        "reason": checked.reason.value if checked.reason else None,
    }


def _call(call: ReplayedCall, *, values: bool) -> dict[str, Any]:
    shown = {"input": call.input, "result": call.result} if values else {}
    return {
        "capability": call.capability,
        "task": call.task,
        "ordinal": call.ordinal,
        "size": call.size,
        "outcome": call.outcome.value,
        "needs": call.demand.effective.to_data(),
        "sources": nested({name: layer.value for name, layer in call.demand.sources().items()}),
        "error": call.error,
        **shown,
    }


def _verdict(value: str) -> Cell:
    cell = named(value)
    return replace(cell, text=cell.text.replace("_", " "))


def _cells(call: ReplayedCall, *, values: bool) -> list[str | Cell]:
    shown = [one_line(repr(value), _LENGTH) for value in (call.input, call.result)] if values else []
    return [
        call.capability,
        call.task,
        "" if call.size is None else str(call.size),
        named(call.outcome),
        call.demand.text,
        *shown,
        one_line(call.error or "", _LENGTH),
    ]


def _print_one(checked: Check, calls: Sequence[ReplayedCall], *, values: bool) -> None:
    if calls:
        shown = ["input", "result"] if values else []
        print_table(
            ["capability", "task", "items", "outcome", "needs", *shown, "error"],
            [_cells(one, values=values) for one in calls],
        )
        print_line()
    print_facts(
        {
            "execution": Cell(checked.execution, "bold"),
            "recipe": checked.recipe or "",
            "status": named(checked.status),
            "verdict": _verdict(checked.verdict),
            "because": checked.detail,
        }
    )


def _print_running(place: str, rows: Sequence[dict[str, Any]], counts: Counter[str]) -> None:
    if not rows:
        print_line(f"{place} has no executions that run")
        return
    print_table(
        ["id", "instance", "recipe", "verdict", "because"],
        [
            [
                row["id"],
                row["instance"],
                row["recipe"] or "",
                _verdict(row["verdict"]),
                one_line(row["detail"]),
            ]
            for row in rows
        ],
    )
    told = ", ".join(f"{counts[verdict]} {_verdict(verdict).text}" for verdict in Verdict if counts[verdict])
    print_line(f"{amount(len(rows), 'execution')} of {place}: {told}")
