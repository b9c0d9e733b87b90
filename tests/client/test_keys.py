"""A key of the user's own makes a start idempotent."""

from __future__ import annotations

import pytest

from tenure import Client, ExecutionExists
from tenure.errors import InvalidInput
from tenure.model.names import check_execution_id
from tenure.wiring import Store
from tests.client.stored import dump
from tests.jobs import work

KEYS = ["order 7", "a/b:c{d}\n", "ключ 🔑", "x" * 256, "\ud800", "0"]


@pytest.mark.parametrize("key", KEYS)
def test_the_same_key_and_input_is_the_same_execution(client: Client, key: str) -> None:
    first = client.start(work.chain, 3, key=key)
    again = client.start(work.chain, 3, key=key)

    assert first.id == again.id == check_execution_id(first.id)
    assert len(client.list()) == 1


def test_other_keys_are_other_executions(client: Client) -> None:
    assert len({client.start(work.chain, 3, key=key).id for key in KEYS}) == len(KEYS)


def test_the_same_key_with_other_input_or_recipe_is_refused_and_nothing_changes(
    client: Client, store: Store
) -> None:
    client.start(work.chain, 3, key="order 7")
    before = dump(store)
    with pytest.raises(ExecutionExists, match="order 7"):
        client.start(work.chain, 4, key="order 7")
    with pytest.raises(ExecutionExists, match="order 7"):
        client.start(work.squares, 3, key="order 7")
    assert dump(store) == before


def test_a_key_is_its_instances_own(store: Store) -> None:
    alice, bob = (Client(store=store, instance=name) for name in ("alice", "bob"))
    mine = alice.start(work.chain, 3, key="order 7")
    other = bob.start(work.chain, 4, key="order 7")

    assert mine.id != other.id
    assert [one.id for one in bob.list()] == [other.id]


@pytest.mark.parametrize("key", ["", "x" * 257])
def test_what_is_no_key_is_refused(client: Client, store: Store, key: str) -> None:
    with pytest.raises(InvalidInput, match="1 to 256 characters"):
        client.start(work.chain, 1, key=key)
    assert dump(store) == {}


def test_an_id_and_a_key_exclude_each_other(client: Client, store: Store) -> None:
    with pytest.raises(InvalidInput, match="both"):
        client.start(work.chain, 1, id="one", key="order 7")
    assert dump(store) == {}
