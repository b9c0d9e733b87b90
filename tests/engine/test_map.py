"""Maps: windows, order, and what a failure closes."""

from __future__ import annotations

from typing import Any

import pytest

from tenure import ExecutionFailed, Run, TaskFailed, recipe, task
from tests.engine.site import INSTANCE, OpenSite, Site
from tests.invariants import broken


def test_results_come_in_the_order_of_the_items(open_site: OpenSite) -> None:
    """Design 6: ten items through a window of three; never are more than three open."""
    site = open_site(window=3)
    opened: list[int] = []
    ran: list[int] = []

    @task
    def square(n: int, *, plus: int) -> int:
        (handle,) = handles
        opened.append(site.redis.scard(site.store.keys("group_open", INSTANCE, handle.id, 0)))
        ran.append(n)
        return n * n + plus

    @recipe
    def squares(run: Run) -> list[int]:
        return run.map(square, reversed(range(10)), plus=1)

    slots = [site.slot(square, squares) for _ in range(2)]
    handles = [site.run(squares)]
    slots[0].drain()

    assert handles[0].result(1) == [n * n + 1 for n in reversed(range(10))]
    assert sorted(ran) == list(range(10))
    assert (max(opened), min(opened)) == (3, 1)
    assert broken(site.store) == []


def test_slots_share_a_map(open_site: OpenSite) -> None:
    """Design 6: an item is a route of its own; whoever is free takes the next one."""
    site = open_site(window=3)
    ran: list[tuple[str, int]] = []

    @task
    def item(n: int) -> int:
        ran.append(("", n))
        return n

    @recipe
    def items(run: Run) -> list[int]:
        return run.map(item, range(6))

    first, second = site.slot(item, items), site.slot(item, items)
    handle = site.run(items)
    # The first one opens the map and takes one item; then they take turns.
    claimed = first._bench.leases.claim()
    assert claimed is not None
    first._work(claimed)
    for turn in range(6):
        slot = (first, second)[turn % 2]
        grant = slot._bench.leases.claim()
        assert grant is not None
        assert not grant.is_recipe
        slot._work(grant)
    second.drain()

    assert handle.result(1) == list(range(6))
    sessions = {e.data["session"] for e in handle.events() if e.kind == "claimed"}
    assert sessions == {slot._bench.leases.holder.session for slot in (first, second)}


def test_an_empty_map_is_recorded_and_gives_an_empty_list(site: Site) -> None:
    """G5: it has its coordinates like any other call, and opens nothing."""

    @task
    def item(n: int) -> int:
        raise AssertionError("there is no item")

    @task
    def last(seen: list[int]) -> list[int]:
        return seen

    @recipe
    def empty(run: Run) -> list[int]:
        return run.call(last, run.map(item, []))

    slot = site.slot(item, last, empty)
    handle = site.run(empty)
    slot.drain()

    assert handle.result(1) == []
    assert site.statuses(handle) == {"0:item": "completed", "1:last": "completed"}


def failing_map(site: Site, **options: Any) -> tuple[Any, Any, list[int]]:
    ran: list[int] = []

    @task(**options)
    def item(n: int) -> int:
        ran.append(n)
        if n == 1:
            raise ValueError("one is refused")
        return n

    @recipe
    def items(run: Run, *, catch: bool = False) -> str:
        try:
            run.map(item, range(10))
        except TaskFailed as failed:
            if not catch:
                raise
            return f"{failed.capability}: {failed.message}"
        return "unreachable"

    return item, items, ran


def test_the_first_failure_closes_the_other_items_as_cancelled(open_site: OpenSite) -> None:
    """Design 3, G14: those that had an outcome keep it, and those that were not opened never are."""
    site = open_site(window=4)
    item, items, ran = failing_map(site)
    slot = site.slot(item, items)
    handle = site.run(items)
    slot.drain()

    with pytest.raises(ExecutionFailed, match="task 0:item:1 failed: ValueError: one is refused"):
        handle.result(1)
    assert ran == [0, 1]
    members = {name: status for name, status in site.statuses(handle).items() if name != "0:item"}
    cancelled = {f"0:item:{n}": "cancelled" for n in (2, 3, 4)}
    assert members == {"0:item:0": "completed", "0:item:1": "failed", **cancelled}
    assert broken(site.store) == []


def test_a_recipe_may_catch_the_failure_of_a_map(open_site: OpenSite) -> None:
    """Design 4: `TaskFailed` names the item that failed."""
    site = open_site(window=4)
    item, items, _ = failing_map(site)
    slot = site.slot(item, items)
    handle = site.run(items, catch=True)
    slot.drain()

    assert handle.result(1) == "0:item:1: ValueError: one is refused"


def test_an_item_that_runs_elsewhere_is_revoked_when_its_map_fails(open_site: OpenSite) -> None:
    """Design 3, G14: its late result blames nobody and overwrites nothing."""
    site = open_site(window=4)
    item, items, _ = failing_map(site)
    slot, other = site.slot(item, items), site.slot(item, items)
    handle = site.run(items, catch=True)
    claimed = slot._bench.leases.claim()
    assert claimed is not None
    slot._work(claimed)
    running = other._bench.leases.claim()
    assert running is not None
    other._bench.leases.mark_started(running)

    slot.drain()
    assert handle.status() == "completed"
    before = site.statuses(handle)
    other._work(running)

    assert before[running.capability] == "cancelled"
    assert site.statuses(handle) == before


def test_a_once_item_that_has_started_is_waited_for(open_site: OpenSite) -> None:
    """Design 3, G7: nobody may forget a charge; its map is settled when it is."""
    site = open_site(window=4)
    item, items, ran = failing_map(site, effects="once")
    slot, other = site.slot(item, items), site.slot(item, items)
    handle = site.run(items, catch=True)
    claimed = slot._bench.leases.claim()
    assert claimed is not None
    slot._work(claimed)
    charging = other._bench.leases.claim()
    assert charging is not None
    other._bench.leases.mark_started(charging)

    slot.drain()
    assert handle.status() == "running"
    assert site.statuses(handle)[charging.capability] == "running"

    other._perform(charging)
    slot.drain()

    assert handle.result(1) == "0:item:1: ValueError: one is refused"
    assert site.statuses(handle)[charging.capability] == "completed"
    assert ran == [1, 0]
    assert broken(site.store) == []
