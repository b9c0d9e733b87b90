"""Executions that an earlier version left behind go on, and nothing that it recorded runs again."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path

import pytest
import redis

from tenure import Client, Needs
from tenure.model.allocation import Allocation
from tenure.store.duties import Leading
from tenure.wiring import Store, open_store
from tenure_scheduler.duties.due import DueWork
from tenure_scheduler.duties.placement import ParkedWork
from tests.harness import working_slot
from tests.histories import store as history
from tests.invariants import broken

HISTORIES = sorted(history.FOLDER.glob("store-*.bin"))


@pytest.fixture
def store(url: str, namespace: str) -> Iterator[Store]:
    with open_store(url, namespace=namespace, test_clock=True) as opened:
        yield opened


@pytest.mark.parametrize("recorded", HISTORIES, ids=lambda path: path.stem)
def test_what_an_earlier_version_stored_is_read_and_goes_on(
    store: Store, redis_client: redis.Redis, recorded: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """G5, G17: its results are not made again, and its demands are read as they were published."""
    history.restore(store, recorded.read_bytes())
    monkeypatch.setattr(history, "ran", [])
    client = Client(store=store)
    assert broken(store) == []

    book = client.get("book").snapshot()
    assert book.job_needs == Needs(memory="2Gi")
    assert set(book.checkpoints) == {"0:plan"}
    assert str(book.demand_of("3:draw").effective) == (
        "cpu=1,memory=2Gi,gpu=1/2,platform=linux/amd64,label.zone=eu"
    )
    assert book.demand_of("recipe").effective == Needs(cpu=1, memory="2Gi")
    assert client.get("nap").snapshot().demand_of("recipe").at == "0:sleep"

    redis_client.incrby(store.keys("clock"), 3_600_000)
    fitting = Allocation(cpu=2, gpu=1, memory="4Gi", platform="linux/amd64", label={"zone": "eu"})
    slot = working_slot(store, history.DEFINITIONS, allocation=fitting)
    leader = store.duties.lead("test", lease=timedelta(minutes=1), grace=timedelta(seconds=1))
    assert isinstance(leader, Leading)
    DueWork(duties=store.duties).run_once(leader.token)
    placement = ParkedWork(duties=store.duties, executions=store.executions, placement=store.placement)
    # The queues that it was recorded with are gone, so what goes on is placed anew each time.
    while "running" in {client.get("book").status(), client.get("nap").status()}:
        while placement.run_once(leader.token).more:
            pass
        slot.drain()

    chapters = ["chapter 0", "chapter 1", "chapter 2"]
    assert client.get("book").result(1) == [*chapters, "a picture of chapter 0"]
    assert client.get("nap").result(1) == "chapter 7"
    assert sorted(history.ran) == ["draft 7", "draw"]
    assert broken(store) == []
