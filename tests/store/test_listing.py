"""Listings: positions in the order of creation, and walks that go on from one."""

from __future__ import annotations

import itertools
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tenure.errors import InvalidInput
from tenure.store.listing import Position
from tests.store.stage import INSTANCE, Stage

MS = 1_767_225_600_000


def listed(stage: Stage, **arguments: Any) -> list[str]:
    return [position.execution for position in stage.store.listing.walk(INSTANCE, **arguments)]


def put(stage: Stage, *positions: Position) -> None:
    stage.client.zadd(
        stage.store.keys("listing", INSTANCE), {one.execution: one.created_ms for one in positions}
    )


def test_the_newest_come_first(stage: Stage) -> None:
    for execution in ("a", "c", "b"):
        stage.start(execution, queues=())
        stage.pass_ms(1000)
    assert listed(stage) == ["b", "c", "a"]
    assert listed(stage, size=1) == ["b", "c", "a"]


def test_a_position_is_its_text() -> None:
    position = Position(MS, "book-7")
    assert str(position) == "1767225600000/book-7"
    assert Position.read(str(position)) == position


@pytest.mark.parametrize(
    "text",
    [
        "",
        "/",
        "7",
        "book-7",
        f"{MS}/",
        f"{MS}/a/b",
        "-1/a",
        "1e3/a",
        "٣/a",
        f"{10**15}/a",
        f"{MS}/-a",
        "1/a\n",
    ],
)
def test_what_is_no_position_is_refused(text: str) -> None:
    with pytest.raises(InvalidInput):
        Position.read(text)


def test_hundreds_of_one_millisecond_are_each_met_once(stage: Stage) -> None:
    """More than are read at a time, from any of them on."""
    ids = [f"e{n:03}" for n in range(250)]
    put(
        stage,
        *(Position(MS, execution) for execution in ids),
        Position(MS - 1, "old"),
        Position(MS + 1, "new"),
    )
    everything = ["new", *reversed(ids), "old"]
    for size in (1, 7, 1000):
        assert listed(stage, size=size) == everything
    for place in (0, 1, 100, 250, 251):
        after = Position(MS if 0 < place < 251 else {0: MS + 1, 251: MS - 1}[place], everything[place])
        assert listed(stage, size=10, after=after) == everything[place + 1 :]


def test_a_walk_goes_on_where_an_execution_has_gone(stage: Stage) -> None:
    put(stage, *(Position(MS, execution) for execution in "abcdef"))
    stage.client.zrem(stage.store.keys("listing", INSTANCE), "d")
    assert listed(stage, size=2, after=Position(MS, "d")) == ["c", "b", "a"]


positions = st.builds(
    Position, st.integers(MS, MS + 3), st.from_regex(r"[a-c][a-c._0-9-]{0,3}", fullmatch=True)
)
# Ids are unique within an instance.
listings = st.lists(positions, min_size=1, max_size=40, unique_by=lambda one: one.execution)
numbers = itertools.count()


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(listing=listings, size=st.integers(1, 9), changes=st.data())
def test_what_stays_is_met_once_whatever_comes_and_goes(
    stage: Stage, listing: list[Position], size: int, changes: st.DataObject
) -> None:
    instance = f"i{next(numbers)}"
    key = stage.store.keys("listing", instance)
    began, *others = listing
    given_first = [began, *others[: len(others) // 2]]
    stage.client.zadd(key, {one.execution: one.created_ms for one in given_first})
    to_come, gone, met = list(others[len(others) // 2 :]), set[str](), list[Position]()
    for position in stage.store.listing.walk(instance, size=size):
        met.append(position)
        change = changes.draw(st.sampled_from(["nothing", "come", "go"]))
        if change == "come" and to_come:
            new = to_come.pop()
            stage.client.zadd(key, {new.execution: new.created_ms})
        elif change == "go":
            one = changes.draw(st.sampled_from([*given_first, position]))
            gone.add(one.execution)
            stage.client.zrem(key, one.execution)
    assert met == sorted(set(met), reverse=True)
    assert {one for one in given_first if one.execution not in gone} <= set(met)
