"""Tenure in ten tests. Read them from the top; `bookshop.py` beside this file is the application.

`site` is a namespace on a real server. `site.worker(...)` starts what `tenure worker ...` starts, and
`site.client` is an ordinary `tenure.Client`.
"""

from __future__ import annotations

from functools import partial

import pytest

from tenure import ExecutionExists, ExecutionFailed
from tests.fundamentals import bookshop
from tests.fundamentals.bookshop import Book, Page
from tests.processes import Process, Site

BOOK = Book(title="Tides", pages=[Page(number=2, text="out"), Page(number=1, text="in")])
SECONDS = 30


def start_worker(site: Site, pool: str = "small", allocation: str = "memory=1Gi") -> Process:
    return site.worker(pool, name=pool, allocation=allocation, modules=("tests.fundamentals.bookshop",))


def test_a_recipe_is_a_function_whose_task_calls_are_durable(site: Site) -> None:
    """`start` returns at once with a handle. Models go in and come out as models; a map keeps its order."""
    start_worker(site)
    handle = site.client.start(bookshop.preview, BOOK)
    assert handle.result(SECONDS) == "[in][out]"
    assert handle.status() == "completed"


def test_an_execution_is_stored_before_any_worker_knows_of_it(site: Site) -> None:
    """With no worker at all it waits, and says for what. It costs nobody anything meanwhile."""
    site.scheduler()
    handle = site.client.start(bookshop.preview, BOOK)
    explanation = handle.explain()
    assert explanation.reason == "awaiting_environment"
    assert "no worker is running" in explanation.summary
    start_worker(site)
    assert handle.result(SECONDS) == "[in][out]"


def test_a_recipe_is_replayed_but_a_completed_task_never_runs_again(site: Site) -> None:
    """The recipe left its worker while the map ran, and was replayed from the top; `layout` ran once."""
    start_worker(site)
    handle = site.client.start(bookshop.preview, BOOK)
    handle.result(SECONDS)
    replays = [event for event in handle.events() if event.kind == "replay"]
    assert len(replays) == 2
    assert len(site.entries("layout")) == 1
    assert len(site.entries("render")) == 2


def test_a_task_is_retried_on_the_recorded_attempt(site: Site) -> None:
    """Attempts that failed are on record with their errors."""
    start_worker(site)
    handle = site.client.start(bookshop.cover, "tides")
    assert handle.result(SECONDS) == "TIDES"
    causes = [attempt["cause"] for attempt in handle.snapshot().attempts]
    assert causes == [f"ConnectionError: the printer is busy (attempt {n})" for n in (1, 2)]


def test_a_recipe_may_catch_the_failure_of_a_task(site: Site) -> None:
    start_worker(site)
    result = site.client.start(bookshop.careful).result(SECONDS)
    assert result == "we go on: task 0:tear failed: ValueError: the paper is torn"


def test_a_failure_that_nobody_catches_fails_the_execution_by_name(site: Site) -> None:
    start_worker(site)
    handle = site.client.start(bookshop.careless)
    with pytest.raises(ExecutionFailed, match=rf"{handle.id}.*the paper is torn"):
        handle.result(SECONDS)


def test_work_goes_only_where_its_needs_are_met(site: Site) -> None:
    """`bind` needs 8Gi. The small worker does the rest; `bind` waits until a large one comes."""
    site.scheduler()
    start_worker(site, "small", "memory=1Gi")
    handle = site.client.start(bookshop.publish, BOOK)
    waits_for_memory = partial(explains, site, handle.id, "memory: needs 8Gi (task), has 1Gi")
    site.until(waits_for_memory, "bind waits for more memory")
    start_worker(site, "large", "memory=16Gi")
    assert handle.result(SECONDS) == "[in][out]"
    assert len(site.entries("layout")) == 1


def test_an_id_of_your_own_makes_starting_idempotent(site: Site) -> None:
    """The same id and input is the same execution; other input is refused, and nothing changes."""
    first = site.client.start(bookshop.cover, "tides", id="order-7")
    again = site.client.start(bookshop.cover, "tides", id="order-7")
    assert first.id == again.id == "order-7"
    with pytest.raises(ExecutionExists, match="order-7"):
        site.client.start(bookshop.cover, "winds", id="order-7")


def test_events_tell_the_story_once_and_in_order(site: Site) -> None:
    """A reader may join at any time: numbers have no gaps."""
    start_worker(site)
    handle = site.client.start(bookshop.cover, "tides")
    story = list(handle.events(follow=True))
    assert [event.seq for event in story] == list(range(1, len(story) + 1))
    assert story[0].kind == "created"
    assert story[-1].kind == "execution_completed"


def test_progress_is_seen_from_outside(site: Site) -> None:
    start_worker(site)
    handle = site.client.start(bookshop.preview, BOOK)
    handle.result(SECONDS)
    said = [event.data["progress"] for event in handle.events() if event.kind == "progress"]
    assert [1, 1, "page 1"] in said


def explains(site: Site, execution: str, text: str) -> bool:
    explanation = site.client.explain(execution)
    return any(text in str(nearest) for route in explanation.routes for nearest in route.nearest)
