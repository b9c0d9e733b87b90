"""`Client.replay`: which code it takes, what it returns, and its twin."""

from __future__ import annotations

import asyncio

import pytest
from pydantic import BaseModel

from tenure import (
    AsyncClient,
    Client,
    ExecutionNotFound,
    NonDeterministicRecipe,
    ReplayCacheMiss,
    ReplayedCall,
    Run,
    new_execution,
    recipe,
    task,
)
from tenure.engine.definitions import Definitions
from tenure.engine.driver import Driver
from tenure.errors import InvalidInput, UnknownRecipe
from tenure.model.blueprint import ExecutionBlueprint
from tenure.wiring import Store
from tests.client.stored import dump
from tests.harness import working_slot


class Sum(BaseModel):
    value: int


@task
def add(one: int, other: int) -> Sum:
    return Sum(value=one + other)


@recipe(name="replayed.sums", version="1")
def sums(run: Run, count: int) -> Sum:
    total = Sum(value=0)
    for n in range(count):
        total = run.call(add, total.value, n)
    return total


@recipe(name="replayed.sums", version="2")
def sums_2(run: Run, count: int) -> Sum:
    return run.call(add, count, count)


@pytest.fixture
def slot(store: Store) -> Driver:
    return working_slot(store, Definitions.of([add, sums]))


def test_the_recipe_is_found_by_the_name_and_version_it_is_pinned_to(client: Client, slot: Driver) -> None:
    """G13: version 2 is loaded too, and would ask for something else."""
    handle = client.start(sums, 4)
    slot.drain()
    calls: list[ReplayedCall] = []

    replayed = client.replay(handle.id, calls.append)

    assert replayed.result == Sum(value=6)
    assert replayed.calls == len(calls) == 4


def test_other_code_may_be_given(client: Client, store: Store, slot: Driver) -> None:
    """G13: to see what it would make of an execution, before it is deployed."""
    handle = client.start(sums, 4)
    slot.drain()
    before = dump(store)
    with pytest.raises(NonDeterministicRecipe, match="0:add"):
        client.replay(handle.id, recipe=sums_2)
    with pytest.raises(UnknownRecipe, match="is not a recipe"):
        client.replay(handle.id, recipe=add)  # type: ignore[arg-type]  # as careless code does
    assert dump(store) == before


def test_code_that_is_not_loaded_is_named_with_what_to_do(client: Client) -> None:
    def elsewhere() -> str:
        @recipe(name="replayed.elsewhere")
        def local(run: Run) -> None: ...

        return client.start(local).id

    execution = elsewhere()
    with pytest.raises(
        UnknownRecipe, match=rf"{execution}: its recipe replayed\.elsewhere@1 .*recipe=.*--import"
    ):
        client.replay(execution)


def test_an_execution_that_is_not_there(client: Client) -> None:
    with pytest.raises(ExecutionNotFound, match=r"gone .*default"):
        client.replay("gone")
    with pytest.raises(InvalidInput, match="execution id"):
        client.replay("a/b")


def test_what_was_stored_through_the_model_has_no_recipe(client: Client, store: Store) -> None:
    execution = new_execution(
        ExecutionBlueprint("book", ("draw",)), "order-9", "default", execution_id="book-7"
    )
    store.execution_store("default").add(execution)
    with pytest.raises(UnknownRecipe, match="book-7 was stored through the model"):
        client.replay("book-7", recipe=sums)


def test_the_twin_does_the_same(url: str, namespace: str, client: Client, store: Store, slot: Driver) -> None:
    """G13, for asyncio."""

    async def go() -> None:
        async with AsyncClient(url, namespace=namespace) as other:
            handle = await other.start(sums, 3)
            with pytest.raises(ReplayCacheMiss, match="0:add"):
                await other.replay(handle.id)
            await asyncio.to_thread(slot.drain)
            before, calls = dump(store), list[ReplayedCall]()
            assert await other.replay(handle.id, calls.append, recipe=sums) == client.replay(handle.id)
            assert [call.capability for call in calls] == ["0:add", "1:add", "2:add"]
            assert dump(store) == before

            async def observer(call: ReplayedCall) -> None:
                calls.clear()

            with pytest.raises(InvalidInput, match="coroutine function would do nothing"):
                await other.replay(handle.id, observer)

    asyncio.run(go())
