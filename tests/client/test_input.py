"""Bad input gives a clear error that says what to do, and nothing is stored or lost."""

from __future__ import annotations

from datetime import datetime
from typing import Any

import pytest
from pydantic import BaseModel

from tenure import Client, ExecutionExists, ExecutionNotFound, Run, recipe, task
from tenure.errors import InvalidInput, NotPlainData, PayloadTooLarge, UnknownRecipe
from tenure.wiring import Store
from tests.jobs import work


class Order(BaseModel):
    id: int
    lines: list[str]


@recipe
def takes_anything(run: Run, value: Any) -> Any:
    return value


@recipe
def takes_an_order(run: Run, order: Order, copies: int = 1) -> Order:
    return order


@task
def a_task() -> None:
    """Only to be passed where a recipe belongs."""


def keys(store: Store) -> set[bytes]:
    return set(store.client.scan_iter(match=f"{store.namespace}:*"))


@pytest.mark.parametrize(
    ("value", "error", "says"),
    [
        (object(), NotPlainData, "takes_anything"),
        ({"a": [1, {2, 3}]}, NotPlainData, "a"),
        ({1: "x"}, NotPlainData, "key"),
        (datetime(2026, 1, 1), NotPlainData, "aware|time zone|timezone"),  # noqa: DTZ001  # naive on purpose
        (2**70, InvalidInput, "64"),
        ("x" * 1_100_000, PayloadTooLarge, "1048576|1 MiB|1,048,576"),
    ],
)
def test_parameters_that_are_not_data_are_refused_by_name(
    client: Client, store: Store, value: object, error: type[Exception], says: str
) -> None:
    with pytest.raises(error, match=says):
        client.start(takes_anything, value)
    assert keys(store) == set()


def test_arguments_that_do_not_fit_the_recipe_are_refused(client: Client, store: Store) -> None:
    with pytest.raises(InvalidInput, match="order"):
        client.start(takes_an_order)
    with pytest.raises(InvalidInput, match="order"):
        client.start(takes_an_order, {"id": "no number", "lines": []})
    with pytest.raises(InvalidInput, match="surprise"):
        client.start(takes_an_order, Order(id=1, lines=[]), surprise=1)
    assert keys(store) == set()


def test_what_is_not_a_recipe_cannot_be_started(client: Client) -> None:
    with pytest.raises(UnknownRecipe, match="@recipe"):
        client.start(a_task)  # type: ignore[arg-type]  # the mistake that the test is about


@pytest.mark.parametrize("bad", ["", "a/b", "a:b", "../x", "x" * 200, "with space"])
def test_ids_that_cannot_be_keys_are_refused(client: Client, store: Store, bad: str) -> None:
    with pytest.raises(InvalidInput, match="execution id"):
        client.start(work.chain, 1, id=bad)
    assert keys(store) == set()


def test_the_same_id_with_the_same_input_is_the_same_execution(client: Client) -> None:
    first = client.start(work.chain, 3, id="one")
    again = client.start(work.chain, 3, id="one")
    assert first.id == again.id
    assert len(client.list()) == 1


def test_the_same_id_with_other_input_or_recipe_is_refused_and_nothing_changes(client: Client) -> None:
    handle = client.start(work.chain, 3, id="one")
    before = handle.snapshot()
    with pytest.raises(ExecutionExists, match="one"):
        client.start(work.chain, 4, id="one")
    with pytest.raises(ExecutionExists, match="one"):
        client.start(work.squares, 3, id="one")
    assert handle.snapshot() == before


def test_another_instances_execution_is_not_found(store: Store) -> None:
    Client(store=store, instance="alice").start(work.chain, 1, id="one")
    stranger = Client(store=store, instance="bob")
    with pytest.raises(ExecutionNotFound, match="one"):
        stranger.get("one").status()
    assert stranger.list() == []


def test_a_priority_out_of_range_is_refused(client: Client) -> None:
    with pytest.raises(InvalidInput, match=r"0 .*9"):
        client.start(work.chain, 1, priority=10)


def test_waiting_in_vain_is_a_timeout(client: Client) -> None:
    handle = client.start(work.chain, 1)
    with pytest.raises(TimeoutError, match=handle.id):
        handle.result(timeout=0.1)
