"""Many starts in few round trips: all inputs are checked first, and then each starts for itself."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from pydantic import BaseModel

from tenure import Client, ExecutionExists, Input, Run, recipe
from tenure.embedded import EmbeddedServer
from tenure.engine.definitions import Definitions
from tenure.errors import InvalidInput, NotPlainData, PayloadTooLarge, StoreFull
from tenure.store import scripts
from tenure.wiring import Store, open_store
from tests.client.stored import dump
from tests.harness import working_slot
from tests.proxy import LossyProxy


class Order(BaseModel):
    item: str
    copies: int = 1


@recipe
def double(run: Run, number: int) -> int:
    return 2 * number


@recipe
def sell(run: Run, order: Order, note: str = "") -> str:
    return f"{order.copies} {order.item} {note}"


@recipe
def keep(run: Run, value: Any) -> Any:
    return value


def test_results_come_in_the_order_of_inputs(client: Client, store: Store) -> None:
    slot = working_slot(store, Definitions.of([double]))
    handles = client.start_many(double, range(250), priority=9, correlation_id="batch")

    slot.drain()

    assert [handle.result(0) for handle in handles] == [2 * n for n in range(250)]
    assert len({handle.id for handle in handles}) == 250
    assert {handle.snapshot().correlation for handle in handles} == {"batch"}


def test_an_input_may_have_several_arguments_and_an_id_or_a_key(client: Client, store: Store) -> None:
    slot = working_slot(store, Definitions.of([sell]))
    tea = Order(item="tea")
    handles = client.start_many(
        sell, [tea, Input(tea, "urgent", id="one"), Input(order={"item": "rye", "copies": 2}, key="#7")]
    )

    slot.drain()

    assert [handle.result(0) for handle in handles] == ["1 tea ", "1 tea urgent", "2 rye "]
    assert handles[1].id == "one"
    assert handles[2].id == client.start(sell, Order(item="rye", copies=2), key="#7").id


def test_a_hundred_starts_are_one_round_trip(
    client: Client, store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    sent: list[int] = []
    real = store.scripts._evaluate_many

    def evaluate_many(name: str, batch: list[bytes]) -> list[bytes]:
        sent.append(len(batch))
        return real(name, batch)

    monkeypatch.setattr(store.scripts, "_evaluate_many", evaluate_many)
    client.start_many(double, range(201))
    assert sent == [100, 100, 1]

    sent.clear()
    client.start_many(keep, ["x" * 900_000] * 9)
    assert sent == [4, 4, 1]
    assert 4 * 900_000 < scripts.BATCH_BYTES < 5 * 900_000


def test_nothing_to_start_asks_nothing(client: Client, store: Store) -> None:
    calls = store.scripts.calls
    assert client.start_many(double, []) == []
    assert store.scripts.calls == calls


@pytest.mark.parametrize(
    ("bad", "error", "says"),
    [
        (object(), NotPlainData, r"inputs\[2\].*keep"),
        ("x" * 1_100_000, PayloadTooLarge, r"inputs\[2\]"),
        (Input(), InvalidInput, r"inputs\[2\].*value"),
        (Input(1, id="a/b"), InvalidInput, r"inputs\[2\].*execution id"),
        (Input(1, id="a", key="b"), InvalidInput, r"inputs\[2\].*both"),
        (Input(1, key=""), InvalidInput, r"inputs\[2\].*no key"),
    ],
)
def test_one_bad_input_is_named_and_nothing_is_stored(
    client: Client, store: Store, bad: object, error: type[Exception], says: str
) -> None:
    with pytest.raises(error, match=says):
        client.start_many(keep, [1, 2, bad, 4])
    assert dump(store) == {}


def test_conflicts_are_named_after_the_others_were_started(client: Client) -> None:
    client.start(double, 1, id="taken")
    client.start(double, 1, key="same")
    before = client.get("taken").snapshot()

    with pytest.raises(ExecutionExists) as caught:
        client.start_many(
            double, [Input(5, id="a"), Input(5, id="taken"), Input(5, key="same"), Input(1, id="taken"), 7]
        )

    says = str(caught.value)
    assert says.startswith("2 of 5 were not started, the others were")
    assert "inputs[1]: execution taken exists already" in says
    assert "of key 'same'" in says
    assert client.get("a").status() == "pending"
    assert client.get("taken").snapshot() == before
    assert len(client.list()) == 4


def test_the_same_call_again_starts_nothing_twice(client: Client) -> None:
    inputs = [Input(n, key=f"message {n}") for n in range(120)]
    first = [handle.id for handle in client.start_many(double, inputs)]
    assert [handle.id for handle in client.start_many(double, inputs)] == first
    assert len(client.list(limit=1000)) == 120


def test_a_registry_that_changes_meanwhile_makes_those_look_again_that_are_parked(
    client: Client, store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A session that registers between look and start must not leave them parked for ever."""
    real = store.placement.view
    slots: list[Any] = []

    def view() -> Any:
        seen = real()
        if not slots:
            slots.append(working_slot(store, Definitions.of([double])))
        return seen

    monkeypatch.setattr(store.placement, "view", view)
    handles = client.start_many(double, range(3))
    slots[0].drain()

    assert [handle.result(0) for handle in handles] == [0, 2, 4]


@pytest.fixture
def lossy(server: EmbeddedServer) -> Iterator[LossyProxy]:
    with LossyProxy(str(server.socket_path)) as proxy:
        yield proxy


def test_a_batch_whose_replies_were_lost_is_sent_again_and_starts_nothing_twice(
    lossy: LossyProxy, namespace: str
) -> None:
    """G16"""
    with open_store(lossy.url, namespace=namespace) as store:
        client = Client(store=store)
        lossy.lose_replies(2)
        handles = client.start_many(double, range(3))

        assert lossy.lost == 2
        assert {stored.id for stored in client.list()} == {handle.id for handle in handles}


def test_a_server_that_has_forgotten_its_scripts_is_told_them(client: Client, store: Store) -> None:
    store.client.script_flush()
    assert len(client.start_many(double, range(3))) == 3


def test_a_full_server_says_so(namespace: str, tmp_path: Any) -> None:
    with (
        EmbeddedServer.attach(tmp_path / "full") as server,
        open_store(server.url, namespace=namespace) as store,
    ):
        client = Client(store=store)
        store.client.config_set("maxmemory", 1)
        with pytest.raises(StoreFull, match="make room"):
            client.start_many(double, range(3))
        store.client.config_set("maxmemory", 0)
        assert client.list() == []
