"""What work costs in round trips, counted by the server: these numbers are exact on any machine.

A slot without processes works alone on the server, so whatever the server counts is the slot's.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, Self

import pytest

from tenure import Client, Run, recipe, task
from tenure.engine import bench, live, steps
from tenure.engine.definitions import Definitions, RecipeDefinition
from tenure.engine.driver import Driver
from tenure.wiring import Store, open_store
from tests.harness import working_slot

#: The claim of the recipe, and the step that ends the execution and finds the queue empty.
CLAIM, END = 1, 1


@task
def increment(n: int) -> int:
    return n + 1


@recipe
def single(run: Run) -> int:
    return run.call(increment, 1)


@recipe
def chain(run: Run, length: int) -> int:
    n = 0
    for _ in range(length):
        n = run.call(increment, n)
    return n


@recipe
def spread(run: Run, width: int) -> int:
    return len(run.map(increment, range(width)))


DEFINITIONS = Definitions.of([increment, single, chain, spread])


@dataclass(frozen=True, slots=True)
class Traffic:
    """What the server has counted so far."""

    scripts: int
    reads: int

    @classmethod
    def of(cls, store: Store) -> Self:
        server: Any = store.client
        info = {**server.info("commandstats"), **server.info("stats")}
        scripts = sum(info.get(f"cmdstat_{name}", {"calls": 0})["calls"] for name in ("evalsha", "eval"))
        return cls(scripts, info["total_reads_processed"])

    def since(self, earlier: Traffic) -> Traffic:
        """What came between the two, without the two reads that asking takes."""
        return Traffic(self.scripts - earlier.scripts, self.reads - earlier.reads - 2)


Measure = Callable[..., Traffic]


@pytest.fixture
def store(url: str, namespace: str) -> Iterator[Store]:
    with open_store(url, namespace=namespace) as opened:
        yield opened


@pytest.fixture
def slot(store: Store) -> Driver:
    return working_slot(store, DEFINITIONS)


@pytest.fixture
def measure(store: Store, slot: Driver, monkeypatch: pytest.MonkeyPatch) -> Measure:
    """Run one execution and say what the slot sent for it, from its first claim to its last."""
    # On a machine that is busy enough any task is dear, and any view of the registry is old.
    monkeypatch.setattr(live, "DEAR_SECONDS", 3600.0)
    monkeypatch.setattr(steps, "IN_HAND_SECONDS", 3600.0)
    monkeypatch.setattr(bench, "VIEW_SECONDS", 3600.0)
    client = Client(store=store)

    def measured(definition: RecipeDefinition[Any], *args: Any) -> Traffic:
        handle = client.start(definition, *args)
        before = Traffic.of(store)
        slot.drain()
        after = Traffic.of(store)
        handle.result(timeout=0)
        return after.since(before)

    # A server that does not know a script is sent it in full, which makes two calls of the first one.
    for definition, *args in ((single,), (spread, 2)):
        measured(definition, *args)
    return measured


def test_a_chain_costs_one_script_call_per_task(measure: Measure) -> None:
    assert measure(chain, 20).scripts == CLAIM + 20 + END


def test_a_chain_reads_nothing_else_per_task(measure: Measure) -> None:
    short, long = measure(chain, 20), measure(chain, 40)

    assert long.reads - short.reads == 20


def test_an_execution_of_one_task_costs_three_script_calls(measure: Measure) -> None:
    traffic = measure(single)

    assert traffic.scripts == CLAIM + 1 + END
    assert traffic.reads == traffic.scripts


def test_an_item_of_a_map_costs_a_start_mark_and_a_step(measure: Measure) -> None:
    fewer, more = measure(spread, 20), measure(spread, 40)

    assert more.scripts - fewer.scripts == 20 * 2
    assert more.reads - fewer.reads == 20 * 2


def test_a_map_costs_five_script_calls_beside_its_items(measure: Measure) -> None:
    hold, parameters, suspend = 1, 1, 1

    assert measure(spread, 20).scripts == CLAIM + hold + parameters + suspend + 20 * 2 + END


def test_starting_costs_one_script_call(store: Store, measure: Measure) -> None:
    client = Client(store=store)
    before = Traffic.of(store)
    client.start(single)
    traffic = Traffic.of(store).since(before)

    assert traffic.scripts == 1
    assert traffic.reads == 2, "the script, and the revision of the registry"
