"""Tenure beside RQ itself, on one server, in turns. Nothing is asserted about time: see the table.

    make bench

The reference runs first in each round, and every ratio is taken within its round. Rates of single tasks are
those of a backlog; `x reference` compares a rate with RQ's for single tasks on one worker. Counts are what
the server says workers sent (for chains and fans also what the client sent), with the background's part.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

from tests.benchmarks.measuring import Figures, Measuring
from tests.benchmarks.sides import RqSide, TenureSide, server_of
from tests.benchmarks.stamps import Stamps, shared
from tests.benchmarks.table import show

ROUNDS = 3

pytestmark = [pytest.mark.benchmark, pytest.mark.timeout(1800)]


@pytest.fixture
def stamps() -> Iterator[Stamps]:
    with shared() as page:
        yield page


@pytest.fixture
def counter(url: str) -> Iterator[Any]:
    with closing(server_of(url)) as client:
        yield client


def test_compared_with_rq(url: str, namespace: str, tmp_path: Path, stamps: Stamps, counter: Any) -> None:
    rq, tenure = RqSide(url, namespace, tmp_path), TenureSide(url, namespace, tmp_path)
    sides = {side.name: Measuring(side, stamps, counter) for side in (rq, tenure)}
    console = Console(width=140)
    rounds: dict[str, list[Figures]] = {name: [] for name in sides}
    for number in range(ROUNDS):
        for name, side in sides.items():
            console.print(f"round {number + 1} of {ROUNDS}: {name}")
            rounds[name].append({**side.with_one_worker(), **side.with_two_workers()})
    rounds[rq.name][0] |= sides[rq.name].memory()
    rounds[tenure.name][0] |= sides[tenure.name].memory(without=tenure.feed)
    console.print()
    show(rounds[rq.name], rounds[tenure.name], console)
    console.out(json.dumps(rounds), highlight=False)
