"""The table: both sides, and their ratio round by round, since only ratios mean much on a busy machine."""

from __future__ import annotations

import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from rich import box
from rich.console import Console
from rich.table import Table

from tests.benchmarks.measuring import per_round

REFERENCE: Final = "single, 1 w"

Rounds = Sequence[Mapping[str, float]]


@dataclass(frozen=True, slots=True)
class Spread:
    """The median of the rounds, with the smallest and the largest."""

    median: float
    least: float
    most: float

    @classmethod
    def of(cls, values: Sequence[float]) -> Spread | None:
        return cls(statistics.median(values), min(values), max(values)) if values else None

    def __str__(self) -> str:
        digits = 0 if self.median >= 100 else 2 if self.median < 10 else 1
        return f"{self.median:.{digits}f} ({self.least:.{digits}f}-{self.most:.{digits}f})"


def unit_of(name: str) -> str:
    """What a figure of this name counts."""
    for part, unit in (
        ("bytes", "B"),
        ("stalled", "tasks"),
        ("µs", "µs"),
        (": ", "each"),
        ("idle", "ms"),
        ("alone", "ms"),
        ("fan", "ms"),
    ):
        if part in name:
            return unit
    return "per s"


def ratio(numerators: Sequence[float], denominators: Sequence[float]) -> Spread | None:
    """Of each round by itself."""
    pairs = zip(numerators, denominators, strict=False)
    return Spread.of([above / below for above, below in pairs if below])


def show(reference: Rounds, tenure: Rounds, console: Console) -> None:
    """Print one row for each figure of the two sides."""
    table = Table(box=box.MARKDOWN)
    table.add_column("what")
    for heading in ("unit", "rq", "tenure", "tenure / rq", "x reference"):
        table.add_column(heading, justify="right")
    base = per_round(reference, REFERENCE)
    names = dict.fromkeys(name for figures in [*tenure, *reference] for name in figures)
    for name in names:
        theirs, ours = per_round(reference, name), per_round(tenure, name)
        unit = unit_of(name)
        cells = [Spread.of(theirs), Spread.of(ours), ratio(ours, theirs)]
        cells.append(ratio(ours, base) if unit == "per s" else None)
        table.add_row(name, unit, *("" if cell is None else str(cell) for cell in cells))
    console.print(table)
