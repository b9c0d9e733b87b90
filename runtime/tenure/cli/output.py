"""Printing: JSON for programs; for people tables with colour on a terminal, and aligned text elsewhere.

Whatever is printed may hold text from a task or a recipe. It is never read as markup, and its control
characters do not reach a terminal.
"""

from __future__ import annotations

import base64
import json
import math
import sys
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import cache
from typing import Any, Final

import click
from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.table import Table
from rich.text import Text

from tenure.cli.failures import clean

json_option = click.option("--json", "as_json", is_flag=True, help="Print JSON, for programs.")

#: Between two columns of a terminal's table, and the least that is left to the last one.
_GAP, _LAST_COLUMN = 3, 12
#: A column of so few characters is never folded.
_SHORT = 10

#: Styles of statuses, waiting reasons, session states, kinds of events and verdicts.
STYLES: Final[Mapping[str, str]] = {
    "completed": "green",
    "ok": "green",
    "running": "cyan",
    "active": "cyan",
    "started": "cyan",
    "ready": "cyan",
    "failed": "red",
    "changed": "red",
    "would_fail": "red",
    "unreadable": "red",
    "lost": "red",
    "blocked": "red",
    "gone": "red",
    "unknown": "magenta",
    "unknown_outcome": "magenta",
    "cancelled": "yellow",
    "no_code": "yellow",
    "draining": "yellow",
    "retry": "yellow",
    "handoff": "yellow",
    "awaiting_environment": "yellow",
    "environment": "yellow",
    "malformed": "red",
    "unsupported": "red",
    "unresolved": "yellow",
    "gap": "yellow",
    "progress": "dim",
    "log": "dim",
}


@dataclass(frozen=True, slots=True)
class Cell:
    """A text with a style that only a terminal shows."""

    text: str
    style: str = ""


def named(name: str | None) -> Cell:
    """A status, reason or kind, in its colour."""
    text = name or ""
    return Cell(text, STYLES.get(text.removeprefix("execution_"), ""))


class _Console(Console):
    def on_broken_pipe(self) -> None:
        """Let the group end quietly, as it does for everything else that is printed."""
        raise BrokenPipeError


@cache
def console() -> Console:
    """The terminal, if stdout is one."""
    return _Console(highlight=False, markup=False, emoji=False)


def on_terminal() -> bool:
    """Whether a person is looking."""
    return console().is_terminal


def print_json(data: Any) -> None:
    """One document, readable where a person is looking."""
    click.echo(json.dumps(jsonable(data), indent=2 if on_terminal() else None))


def print_json_line(data: Any) -> None:
    """One object on a line of its own, at once."""
    sys.stdout.write(json.dumps(jsonable(data)) + "\n")
    sys.stdout.flush()


def print_line(*cells: str | Cell) -> None:
    """Texts in a row, at once."""
    if on_terminal():
        console().print(Text.assemble(*(_text(cell) for cell in cells)), soft_wrap=True)
    else:
        sys.stdout.write("".join(clean(_cell(cell).text) for cell in cells).rstrip() + "\n")
        sys.stdout.flush()


def print_table(columns: Sequence[str], rows: Iterable[Sequence[str | Cell]], *, title: str = "") -> None:
    """Rows under a header. A terminal leaves out empty columns; elsewhere each keeps its place."""
    if title:
        print_line(Cell(title, "bold"))
    cells = [[_cell(cell) for cell in row] for row in rows]
    if not on_terminal():
        texts = [[one_line(cell.text) for cell in row] for row in cells]
        _print_aligned([[column.upper() for column in columns], *texts])
        return
    shown = [n for n in range(len(columns)) if any(row[n].text for row in cells)]
    widths = [max(len(columns[n]), *(len(row[n].text) for row in cells)) for n in shown]
    # The last column gives way, so that ids stay in one piece; where that leaves it too little, all do.
    has_room = sum(widths[:-1]) + _GAP * (len(shown) - 1) + _LAST_COLUMN <= console().width
    table = Table(box=SIMPLE_HEAD, header_style="dim", pad_edge=False, show_edge=False)
    for n, width in zip(shown, widths, strict=True):
        is_whole = width <= _SHORT or (has_room and n != shown[-1])
        table.add_column(columns[n], overflow="fold", no_wrap=is_whole)
    for row in cells:
        table.add_row(*(_text(row[n]) for n in shown))
    console().print(table)


def print_facts(facts: Mapping[str, str | Cell]) -> None:
    """Names with their values, without those that are empty."""
    shown = {name: cell for name, cell in facts.items() if _cell(cell).text}
    if on_terminal():
        grid = Table.grid(padding=(0, 2))
        for name, cell in shown.items():
            grid.add_row(Text(name, "dim"), _text(cell))
        console().print(grid)
        return
    rows: list[list[str]] = []
    for name, cell in shown.items():
        first, *others = _cell(cell).text.splitlines()
        rows += [[name, one_line(first)], *(["", one_line(line)] for line in others)]
    _print_aligned(rows)


def one_line(text: str, limit: int | None = None) -> str:
    """`text` with its line breaks and runs of blanks as one blank each, cut off after `limit` characters."""
    flat = " ".join(clean(text).split())
    return flat if limit is None or len(flat) <= limit else flat[: limit - 1] + "…"


def jsonable(value: Any) -> Any:
    """Plain data as JSON has it: times in ISO form, bytes in base64, and no number that JSON lacks."""
    match value:
        case Mapping():
            return {str(key): jsonable(member) for key, member in value.items()}
        case list() | tuple() | set() | frozenset():
            return [jsonable(member) for member in value]
        case datetime():
            return value.isoformat()
        case bytes():
            return base64.b64encode(value).decode()
        case float() if not math.isfinite(value):
            return str(value)
        case _:
            return value


def _cell(cell: str | Cell) -> Cell:
    return cell if isinstance(cell, Cell) else Cell(cell)


def _text(cell: str | Cell) -> Text:
    return Text(clean(_cell(cell).text), _cell(cell).style)


def _print_aligned(rows: Sequence[Sequence[str]]) -> None:
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    for row in rows:
        click.echo("  ".join(text.ljust(width) for text, width in zip(row, widths, strict=True)).rstrip())
