"""`tenure cancel`: ask that an execution ends as cancelled."""

from __future__ import annotations

import sys

import click

from tenure.cli.connecting import connect
from tenure.cli.failures import ExitCode
from tenure.cli.output import json_option, print_json, print_line
from tenure.cli.target import Target, pass_target
from tenure.store.answers import CancelAnswer

SENTENCES = {
    CancelAnswer.CANCELLED: "execution {id} is cancelled",
    CancelAnswer.REQUESTED: "execution {id} ends as cancelled as soon as what runs has stopped",
    CancelAnswer.UNKNOWN: (
        "execution {id} is to end as cancelled, but nobody knows how its lost `once` task ended, "
        "and that keeps it open; `tenure explain {id}` names it"
    ),
    CancelAnswer.ALREADY_TERMINAL: "execution {id} has ended already; nothing was changed",
}


@click.command(short_help="Cancel an execution.")
@click.argument("execution", metavar="ID")
@click.option("--reason", default="", metavar="TEXT", help="Why; recorded. The first reason stays.")
@json_option
@pass_target
def cancel(target: Target, *, execution: str, reason: str, as_json: bool) -> None:
    """Ask that the execution ID ends as cancelled.

    What nobody has begun never starts; what runs is asked to stop, and stopped after the grace period. Exit
    code 4 if the execution had ended already.
    """
    with connect(target) as client:
        answer = client.cancel(execution, reason)
        if answer is CancelAnswer.ALREADY_TERMINAL and client.get(execution).status() == "cancelled":
            # As asked, by an earlier call whose reply may have been lost.
            answer = CancelAnswer.CANCELLED
    if as_json:
        print_json({"execution": execution, "answer": answer.value})
    else:
        print_line(SENTENCES[answer].format(id=execution))
    if answer is CancelAnswer.ALREADY_TERMINAL:
        sys.exit(ExitCode.CONFLICT)
