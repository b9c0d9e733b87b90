"""Pages of executions: none is skipped and none repeated, whatever happens between them."""

from __future__ import annotations

import asyncio
import random
import re
from typing import Any

import pytest
import redis

import tenure
from tenure import Allocation, AsyncClient, Client, Needs, Run, recipe
from tenure.client.listing import Page
from tenure.errors import InvalidInput
from tenure.wiring import Store


@recipe
def easy(run: Run, number: int) -> int:
    return number


@recipe(needs=Needs(memory="8Gi"))
def heavy(run: Run, number: int) -> int:
    return number


def ids(page: Page) -> list[str]:
    return [one.id for one in page.executions]


def start(client: Client, count: int) -> list[str]:
    """Every third needs more than the others; in the order of the listing."""
    for number in range(count):
        client.start(easy if number % 3 else heavy, number, id=f"e{number:03}")
    return [f"e{number:03}" for number in reversed(range(count))]


def pages(client: Client, **arguments: Any) -> list[list[str]]:
    """Page after page until there is none."""
    found, after = [], None
    while True:
        page = client.page(after=after, **arguments)
        found.append(ids(page))
        after = page.next
        if after is None:
            return found


def put_at_once(store: Store, instance: str = "default") -> None:
    """Let all executions of an instance have been created in one millisecond."""
    key = store.keys("listing", instance)
    client: redis.Redis = store.client
    members: Any = client.zrange(key, 0, -1)
    client.zadd(key, dict.fromkeys(members, 1_767_225_600_000))


def test_there_is_a_next_page_only_if_something_is_on_it(client: Client) -> None:
    assert client.page() == Page([], None)
    listed = start(client, 6)
    assert pages(client, limit=100) == [listed]
    assert pages(client, limit=6) == [listed]
    assert pages(client, limit=4) == [listed[:4], listed[4:]]
    assert pages(client, limit=2) == [listed[:2], listed[2:4], listed[4:]]
    assert [one.id for one in client.list(limit=2)] == listed[:2]


def test_pages_of_what_was_asked_for_are_full(client: Client) -> None:
    """However many others lie between; and a page may end with the last that was asked for."""
    listed = start(client, 160)
    for number in range(0, 160, 40):
        client.cancel(f"e{number:03}")
    cancelled = [f"e{number:03}" for number in (120, 80, 40, 0)]
    assert pages(client, status="cancelled", limit=3) == [cancelled[:3], cancelled[3:]]
    big, small = Allocation(memory="8Gi"), Allocation(memory="1Gi")
    fits_small = [one for one in listed if int(one[1:]) % 3 and one not in cancelled]
    found = pages(client, compatible_with=small, limit=10)
    assert [one for page in found for one in page] == fits_small
    assert all(len(page) == 10 for page in found[:-1])
    open_ones = [one for one in listed if one not in cancelled]
    assert pages(client, compatible_with=big, limit=100) == [open_ones[:100], open_ones[100:]]


def test_hundreds_of_one_millisecond(client: Client, store: Store) -> None:
    client.start_many(easy, range(300))
    put_at_once(store)
    found = pages(client, limit=70)
    assert [len(page) for page in found] == [70, 70, 70, 70, 20]
    flat = [one for page in found for one in page]
    assert flat == sorted(set(flat), reverse=True)


def test_the_execution_that_the_cursor_names_may_go(client: Client, store: Store) -> None:
    listed = start(client, 9)
    put_at_once(store)
    page = client.page(limit=3)
    for gone in (*listed[1:5], listed[8]):
        store.execution_store("default").delete(gone)
    assert ids(client.page(limit=3, after=page.next)) == listed[5:8]


@pytest.mark.parametrize("seed", range(6))
def test_nothing_is_skipped_or_repeated_while_others_come_and_go(
    client: Client, store: Store, seed: int
) -> None:
    """As a plain list has it: each that was there all the time once, in its place, and none that is new."""
    chance = random.Random(seed)
    was_there = {handle.id for handle in client.start_many(easy, range(240))}
    if seed % 2:
        put_at_once(store)
    order = [position.execution for position in store.listing.walk("default")]
    gone: set[str] = set()
    met: list[str] = []
    after = None
    while True:
        page = client.page(limit=chance.randint(1, 40), after=after)
        met += ids(page)
        for _ in range(chance.randint(0, 8)):
            one = chance.choice(order)
            match chance.choice(["new", "end", "delete", "delete the last"]):
                case "new":
                    client.start(easy, 0)
                case "end" if one not in gone:
                    client.cancel(one)
                case "delete" | "delete the last" as what:
                    one = met[-1] if what == "delete the last" and met[-1] in was_there else one
                    store.execution_store("default").delete(one)
                    gone.add(one)
                case _:
                    continue
        after = page.next
        if after is None:
            break
    assert [one for one in order if one not in gone] == [one for one in met if one not in gone]
    assert len(met) == len(set(met))
    assert set(met) <= was_there


def test_what_cannot_be_read_is_passed_over_and_the_pages_go_on(client: Client, store: Store) -> None:
    listed = start(client, 6)
    store.client.hset(store.keys("execution", "default", listed[2]), "schema", "99")
    assert pages(client, limit=2) == [listed[:2], [listed[3], listed[4]], [listed[5]]]


@pytest.mark.parametrize("after", ["", "nonsense", "7", "7/a/b", "7/", "-7/a"])
def test_what_is_no_cursor_is_refused(client: Client, after: str) -> None:
    with pytest.raises(InvalidInput):
        client.page(after=after)


def test_a_page_has_at_least_one_place(client: Client) -> None:
    wrong: list[Any] = [0, -1, True, False, 2.0, "2", None, float("nan")]
    for limit in wrong:
        for ask in (client.list, client.page):
            with pytest.raises(InvalidInput, match=re.escape(f"limit: {limit!r} is no number")):
                ask(limit=limit)


def test_what_a_page_returned_is_asked_for_its_environment_by_public_names(client: Client) -> None:
    start(client, 1)
    page = client.page()
    assert isinstance(page, tenure.Page)
    environment = tenure.environment_of(page.executions[0])
    assert isinstance(environment, tenure.Environment)
    assert environment.routes[0].demand.needs == Needs(memory="8Gi")
    assert isinstance(client.explain("e000"), tenure.Explanation)
    assert issubclass(tenure.InvalidInput, tenure.TenureError)


def test_pages_for_asyncio(url: str, namespace: str, client: Client) -> None:
    listed = start(client, 4)

    async def go() -> None:
        async with AsyncClient(url, namespace=namespace) as other:
            first = await other.page(limit=3)
            assert ids(first) == listed[:3]
            assert ids(await other.page(limit=3, after=first.next)) == listed[3:]
            fits = await other.list(compatible_with=Allocation(memory="1Gi"), include_unresolved=True)
            assert [one.id for one in fits] == [listed[1], listed[2]]

    asyncio.run(go())
