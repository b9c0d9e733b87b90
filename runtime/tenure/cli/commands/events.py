"""`tenure events`: what happened to an execution, and with `-f` what is happening."""

from __future__ import annotations

from datetime import timedelta

import click

from tenure.cli import describing
from tenure.cli.connecting import connect
from tenure.cli.output import Cell, named, one_line, print_json_line, print_line
from tenure.cli.target import Target, pass_target
from tenure.cli.words import amount, progress, roughly
from tenure.store.events import GAP, Event

_ERROR_LENGTH = 200


@click.command(short_help="Print what happened to an execution, in order.")
@click.argument("execution", metavar="ID")
@click.option("-f", "--follow", is_flag=True, help="Go on until it has ended.")
@click.option("--after", type=click.IntRange(min=0), default=0, help="Only those after this number.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object per line.")
@pass_target
def events(target: Target, *, execution: str, follow: bool, after: int, as_json: bool) -> None:
    """Print the events of the execution ID in order, each once."""
    with connect(target) as client:
        handle = client.get(execution)
        if follow:
            # Following alone would find out only after its first wait that there is no such execution.
            handle.status()
        for event in handle.events(follow=follow, after=after):
            if as_json:
                print_json_line(describing.event(event))
            else:
                _print(event)


def _print(event: Event) -> None:
    clock = event.at.astimezone().strftime("%H:%M:%S.%f")[:-3] if event.at else ""
    kind = named(event.kind)
    print_line(
        Cell(f"{event.seq:>5}  {clock:<12}  ", "dim"),
        Cell(f"{kind.text:<20}  ", kind.style),
        f"{event.capability or '':<20}  ",
        one_line(details(event), _ERROR_LENGTH),
    )


def details(event: Event) -> str:
    """What an event carries, in words."""
    data = event.data
    if event.kind == GAP:
        return f"{amount(data['lost'], 'event')} are no longer kept"
    words = [
        f"attempt {data['attempt']}" if data.get("attempt", 1) != 1 else "",
        data.get("recipe") or "",
        f"in {data['queue']}" if data.get("queue") else "",
        f"by {data['session']}" if data.get("session") else "",
        progress(data.get("progress"), bar=False),
        data.get("message") or "",
        data.get("reason") or "",
        f"required by {', '.join(data['required_by'])}" if data.get("required_by") else "",
        "; ".join(data.get("mismatches") or []),
        data.get("cause") or "",
        data.get("error") or "",
        f"next in {_ms(data['delay'])}" if data.get("delay") is not None else "",
        f"took {_ms(data['ms'])}" if data.get("ms") is not None else "",
    ]
    return ", ".join(filter(None, words))


def _ms(milliseconds: int) -> str:
    return roughly(timedelta(milliseconds=milliseconds))
