"""`tenure explain`: why an execution is not moving, and what would change it."""

from __future__ import annotations

import click

from tenure.cli.connecting import connect
from tenure.cli.output import Cell, json_option, named, print_facts, print_json, print_line
from tenure.cli.target import Target, pass_target
from tenure.cli.words import amount, handed_off, when
from tenure.client.explain import Explanation, RouteExplanation

SHORT = 10


@click.command(short_help="Say why an execution is not moving.")
@click.argument("execution", metavar="ID")
@click.option("--all", "everything", is_flag=True, help="Every route that waits, not only the first ones.")
@json_option
@pass_target
def explain(target: Target, *, execution: str, everything: bool, as_json: bool) -> None:
    """Say why the execution ID is not moving: the reason, since when, and what would change it."""
    with connect(target) as client:
        explanation = client.explain(execution)
    if as_json:
        print_json(explanation.to_data())
        return
    _print(explanation, everything=everything)


def _print(explanation: Explanation, *, everything: bool) -> None:
    print_facts(
        {
            "execution": Cell(explanation.execution, "bold"),
            "status": named(explanation.status),
            "waiting for": named(explanation.reason),
            "since": when(explanation.since),
            "because": explanation.summary,
        }
    )
    shown = explanation.routes if everything else explanation.routes[:SHORT]
    for number, route in enumerate(shown):
        print_line()
        # The summary has mostly said already what is to be said of the first one.
        print_facts(_facts(route, in_summary=number == 0 and route.detail in explanation.summary))
    if hidden := len(explanation.routes) - len(shown):
        print_line()
        print_line(f"and {amount(hidden, 'more route')}; --all shows them")


def _facts(route: RouteExplanation, *, in_summary: bool) -> dict[str, str | Cell]:
    return {
        "task": Cell(route.capability, "bold"),
        "waiting for": named(route.reason),
        "since": when(route.since),
        "because": "" if in_summary else route.detail,
        "what helps": "" if in_summary else route.remedy,
        # If they cannot be read, why is said above.
        "needs": str(route.demand.status if route.demand.error else route.demand),
        "handed off by a slot with": handed_off(route.demand.handed_off),
        "nearest": "\n".join(map(str, route.nearest)),
    }
