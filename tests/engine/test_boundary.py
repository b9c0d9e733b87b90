"""Parameters and results at the boundary of a task: checked both ways, and never half-recorded."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from pydantic import BaseModel

from tenure import ExecutionFailed, Run, TaskFailed, recipe, task
from tenure.errors import InvalidInput, PayloadTooLarge
from tests.engine.site import INSTANCE, OpenSite, Site
from tests.invariants import broken


class Page(BaseModel):
    number: int
    due: datetime
    tags: set[str] = set()


class Book(BaseModel):
    title: str
    pages: list[Page]


def test_models_are_models_on_both_sides_and_on_replay(site: Site) -> None:
    """Design 4: of parameters and results, of tasks and of recipes, in chains and in maps."""
    seen: list[type] = []

    @task
    def shift(page: Page, by: timedelta) -> Page:
        seen.append(type(page))
        return page.model_copy(update={"due": page.due + by, "tags": page.tags | {"shifted"}})

    @task
    def gather(pages: list[Page], *, title: str = "book") -> Book:
        seen.extend(type(page) for page in pages)
        return Book(title=title, pages=pages)

    @recipe
    def bind(run: Run, book: Book) -> Book:
        seen.append(type(book))
        first = run.call(shift, book.pages[0], timedelta(days=1))
        seen.append(type(first))
        others = run.map(shift, book.pages[1:], by=timedelta(days=2))
        return run.call(gather, [first, *others], title=book.title)

    start = datetime(2026, 1, 1, tzinfo=UTC)
    book = Book(title="Atlas", pages=[Page(number=n, due=start) for n in range(3)])
    slot = site.slot(shift, gather, bind)
    handle = site.run(bind, book)
    slot.drain()

    result = handle.result(1)
    assert isinstance(result, Book)
    assert [page.due.day for page in result.pages] == [2, 3, 3]
    assert all(page.tags == {"shifted"} for page in result.pages)
    assert set(seen) == {Page, Book}


def test_the_input_of_a_recipe_is_checked_before_anything_is_stored(site: Site) -> None:
    @recipe
    def count(run: Run, n: int) -> int:
        return n

    with pytest.raises(InvalidInput, match="count"):
        site.run(count, "many")
    with pytest.raises(InvalidInput, match="'m'"):
        site.run(count, 1, m=2)

    assert list(site.store.listing.walk(INSTANCE)) == []


def failing_with(site: Site, recipe_: Any, *definitions: Any) -> str:
    """Why an execution fails that must."""
    slot = site.slot(*definitions, recipe_)
    handle = site.run(recipe_)
    slot.drain()
    assert broken(site.store) == []
    with pytest.raises(ExecutionFailed) as caught:
        handle.result(1)
    return str(caught.value)


def test_a_parameter_that_is_no_data_is_refused_where_the_call_is_made(site: Site) -> None:
    """Design 4: the task does not start, and the message has the path of the part."""
    ran: list[str] = []

    @task
    def take(thing: Any) -> None:
        ran.append("take")

    @recipe
    def giving(run: Run) -> None:
        run.call(take, {"callbacks": [print]})

    message = failing_with(site, giving, take)

    assert "thing" in message
    assert "callbacks[0]" in message
    assert "is not plain data" in message
    assert ran == []


def test_a_parameter_of_the_wrong_type_is_refused_where_the_call_is_made(site: Site) -> None:
    @task
    def take(n: int) -> None:
        raise AssertionError("it must not run")

    @recipe
    def giving(run: Run) -> str:
        with pytest.raises(InvalidInput, match=r"take\(n\)"):
            run.call(take, "many")
        with pytest.raises(InvalidInput, match="it takes"):
            run.call(take, 1, 2)
        return "caught"

    slot = site.slot(take, giving)
    handle = site.run(giving)
    slot.drain()

    assert handle.result(1) == "caught"
    assert site.statuses(handle) == {}


@pytest.mark.parametrize("kind", ["no data", "another type"])
def test_a_result_that_is_no_data_fails_the_task_and_is_not_tried_again(site: Site, kind: str) -> None:
    """Design 4: its effect has happened, and it would return the same."""
    ran: list[str] = []

    @task
    def give() -> Any:
        ran.append("give")
        return {"callback": print}

    @task
    def lie() -> int:
        ran.append("lie")
        return "many"  # type: ignore[return-value]  # the point

    chosen = give if kind == "no data" else lie

    @recipe
    def taking(run: Run) -> None:
        run.call(chosen)

    message = failing_with(site, taking, chosen)

    assert f"the result of {chosen.signature.name}" in message
    assert len(ran) == 1


def test_the_result_of_a_recipe_is_checked_too(site: Site) -> None:
    @recipe
    def giving(run: Run) -> int:
        return "many"  # type: ignore[return-value]  # the point

    assert "the result of" in failing_with(site, giving)


@pytest.mark.parametrize("where", ["parameter", "item of a map", "result", "result of the recipe"])
def test_what_is_too_large_is_refused_with_the_limit(open_site: OpenSite, where: str) -> None:
    """Design 11: and with the advice to store a reference; nothing of it is stored."""
    site = open_site(payload=1000)
    big = "x" * 2000

    @task
    def take(text: str = "") -> None:
        assert len(text) < 1000

    @task
    def give() -> str:
        return big

    @recipe
    def moving(run: Run) -> str:
        match where:
            case "parameter":
                run.call(take, big)
            case "item of a map":
                run.map(take, ["", big])
            case "result":
                run.call(give)
            case _:
                return big
        return ""

    message = failing_with(site, moving, take, give)

    assert "over the limit of 1000" in message
    assert "pass a reference" in message
    assert not any(big.encode() in raw for raw in stored_values(site))


def test_an_input_that_is_too_large_is_refused_by_the_client(open_site: OpenSite) -> None:
    site = open_site(payload=1000)

    @recipe
    def taking(run: Run, text: str) -> None:
        return None

    with pytest.raises(PayloadTooLarge, match="over the limit of 1000"):
        site.run(taking, "x" * 2000)


def test_a_recipe_may_catch_that_a_result_was_refused(site: Site) -> None:
    @task
    def give() -> Any:
        return print

    @recipe
    def taking(run: Run) -> str:
        try:
            run.call(give)
        except TaskFailed as failed:
            return failed.capability
        return ""

    slot = site.slot(give, taking)
    handle = site.run(taking)
    slot.drain()

    assert handle.result(1) == "0:give"


def stored_values(site: Site) -> list[bytes]:
    """Every value of every hash of the namespace."""
    client: Any = site.redis
    keys = client.scan_iter(f"{site.store.namespace}:*", _type="hash")
    return [raw for key in keys for raw in client.hvals(key)]
