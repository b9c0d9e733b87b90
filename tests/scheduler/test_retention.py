"""What ended long ago goes, by the store's clock, with everything that belongs to it; nothing else does."""

from __future__ import annotations

import re
from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest

from tenure import Client
from tenure.engine.driver import Driver
from tenure.errors import ExecutionNotFound, StoreFull, Unconfirmed
from tenure.model.status import SessionState
from tenure.settings import Settings
from tenure.store.duties import NotLeader
from tenure.store.keys import FAMILIES, KeyFamily
from tenure.wiring import open_store
from tenure_scheduler.duties.due import DueWork
from tenure_scheduler.duties.outbox import OutboxDelivery
from tenure_scheduler.duties.placement import ParkedWork
from tenure_scheduler.duties.retention import Retention
from tests import samples
from tests.harness import working_slot
from tests.invariants import broken
from tests.posting import post
from tests.scheduler.own_server import OwnServer
from tests.scheduler.world import INSTANCE, World

DAY_MS = 86_400_000
KEPT = Settings(retention=timedelta(days=7))


@pytest.fixture
def retention(world: World) -> Retention:
    return Retention(duties=world.store.duties, settings=KEPT)


@pytest.fixture
def client(world: World) -> Client:
    return Client(store=world.store, instance=INSTANCE)


@pytest.fixture
def slot(world: World) -> Driver:
    return working_slot(world.store, samples.DEFINITIONS)


def test_an_execution_is_kept_until_its_time_has_passed_since_its_end(
    world: World, leader: int, client: Client, slot: Driver, retention: Retention
) -> None:
    """G3"""
    handle = client.start(samples.squares, 3)
    world.pass_ms(DAY_MS)
    slot.drain()
    world.pass_ms(7 * DAY_MS - 60_000)
    assert retention.run_once(leader).forgotten == 0
    assert handle.result(1) == 5

    world.pass_ms(60_000)

    assert retention.run_once(leader).forgotten == 1
    with pytest.raises(ExecutionNotFound):
        handle.status()
    assert client.list() == []
    assert broken(world.store) == []


def test_what_has_not_ended_is_kept_however_old_it_is(
    world: World, leader: int, client: Client, slot: Driver, retention: Retention
) -> None:
    waiting = client.start(samples.heavy)
    unknown = client.start(samples.billing, 5, vanish=True)
    with pytest.raises(Unconfirmed):
        slot.drain()
    put_down(world, slot)
    world.pass_ms(100 * DAY_MS)
    assert retention.run_once(leader).forgotten == 0
    assert not waiting.snapshot().is_terminal
    assert unknown.explain().reason == "unknown_outcome"


def test_its_id_is_free_again(
    world: World, leader: int, client: Client, slot: Driver, retention: Retention
) -> None:
    client.start(samples.squares, 3, id="again")
    slot.drain()
    world.pass_ms(8 * DAY_MS)
    retention.run_once(leader)
    handle = client.start(samples.squares, 4, id="again")
    slot.drain()
    assert handle.result(1) == 14


def test_a_run_takes_one_page_and_says_that_there_is_more(
    world: World, leader: int, client: Client, slot: Driver
) -> None:
    retention = Retention(duties=world.store.duties, settings=KEPT, limit=2)
    for _ in range(3):
        client.start(samples.squares, 0)
    slot.drain()
    world.pass_ms(8 * DAY_MS)
    reports = [retention.run_once(leader) for _ in range(2)]
    assert [(r.forgotten, r.more) for r in reports] == [(2, True), (1, False)]


def test_one_that_does_not_say_that_it_has_ended_is_kept_and_stops_no_other(
    world: World, leader: int, client: Client, slot: Driver, caplog: pytest.LogCaptureFixture
) -> None:
    """G17"""
    retention = Retention(duties=world.store.duties, settings=KEPT, limit=1)
    for name in ("newer", "other"):
        client.start(samples.squares, 1, id=name)
        slot.drain()
    world.client.hset(world.store.keys("execution", INSTANCE, "newer"), "schema", "99")
    world.pass_ms(8 * DAY_MS)
    reports = [retention.run_once(leader) for _ in range(2)]
    assert [(r.forgotten, r.malformed) for r in reports] == [(0, 1), (1, 0)]
    assert "newer" in caplog.text
    assert world.client.exists(world.store.keys("results", INSTANCE, "newer"))


def test_one_who_leads_no_more_forgets_nothing(
    world: World, leader: int, client: Client, slot: Driver, retention: Retention
) -> None:
    client.start(samples.squares, 1, id="kept")
    slot.drain()
    world.pass_ms(8 * DAY_MS)
    world.lead("another")
    with pytest.raises(NotLeader):
        retention.run_once(leader)
    assert client.get("kept").result(1) == 0


def test_a_full_server_gets_room_by_it() -> None:
    with OwnServer() as server, open_store(server.url, namespace="full", test_clock=True) as store:
        world, client = World(store, store.client), Client(store=store)
        slot = working_slot(store, samples.DEFINITIONS)
        for _ in range(3):
            client.start(samples.squares, 100)
        slot.drain()
        world.pass_ms(8 * DAY_MS)
        store.client.config_set("maxmemory", "1kb")
        with pytest.raises(StoreFull):
            client.start(samples.squares, 1)
        retention = Retention(duties=store.duties, settings=KEPT)
        assert retention.run_once(world.lead()).forgotten == 3


# -- nothing is left behind ----------------------------------------------------------------------------------


def completed(world: World, client: Client, slot: Driver) -> None:
    client.start(samples.publish, "Dune", 3)


def mapped(world: World, client: Client, slot: Driver) -> None:
    client.start(samples.squares, 300)


def failed(world: World, client: Client, slot: Driver) -> None:
    client.start(samples.failing)


def failed_in_a_map(world: World, client: Client, slot: Driver) -> None:
    client.start(samples.squares, 30, refuse=3)


def retried(world: World, client: Client, slot: Driver) -> None:
    client.start(samples.stumbling)
    slot.drain()
    world.pass_ms(60_000)
    DueWork(duties=world.store.duties).run_once(world.lead())


def cancelled_while_parked(world: World, client: Client, slot: Driver) -> None:
    client.start(samples.heavy)
    slot.drain()
    handle = client.start(samples.heavy_recipe, deadline="1h")
    handle.cancel("not wanted")
    for listed in client.list():
        client.cancel(listed.id, "not wanted")


def delayed_and_cancelled(world: World, client: Client, slot: Driver) -> None:
    client.start(samples.squares, 1, delay="30d", deadline="40d").cancel("not wanted")


def lost_and_taken_over(world: World, client: Client, slot: Driver) -> None:
    client.start(samples.billing, 5)
    claimed = slot._bench.leases.claim()
    assert claimed is not None
    put_down(world, slot)
    working_slot(world.store, samples.DEFINITIONS, session="s2", life="l2").drain()


def posted(world: World, client: Client, slot: Driver) -> None:
    """Its event outlives it until somebody has accepted it."""
    post(world.store, execution=client.start(samples.squares, 1).id)


KINDS = [
    *(completed, mapped, failed, failed_in_a_map, retried),
    *(cancelled_while_parked, delayed_and_cancelled, lost_and_taken_over, posted),
]


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.__name__)
def test_no_key_is_left_but_those_that_never_end_or_expire(
    world: World, client: Client, slot: Driver, kind: Callable[[World, Client, Driver], None]
) -> None:
    kind(world, client, slot)
    if kind is not lost_and_taken_over:
        slot.drain()
    live = [one.id for one in client.list() if not one.is_terminal]
    assert live == []
    for session in world.store.sessions.list():
        world.store.sessions.retire(session.name, session.generation, SessionState.GONE)
    leader, retention = world.lead(), Retention(duties=world.store.duties, settings=KEPT)
    parked = ParkedWork(
        duties=world.store.duties, executions=world.store.executions, placement=world.store.placement
    )
    while parked.run_once(leader).more:
        pass
    world.pass_ms(8 * DAY_MS)

    while retention.run_once(leader).more:
        pass
    OutboxDelivery(duties=world.store.duties, courier=None, settings=KEPT).run_once(leader)

    assert leaks(world) == []


def leaks(world: World) -> list[str]:
    """Keys of the namespace, and of RQ for it, that should have ended by what `keys.py` says of them."""
    raw: Any = world.client
    found = []
    for key in sorted(one.decode() for one in raw.scan_iter(match=f"*{world.store.namespace}*", count=1000)):
        family = family_of(world, key)
        if family is None:
            found.append(f"{key} belongs to no family")
        elif "expiry" in family.ends and raw.ttl(key) < 0:
            found.append(f"{key} has no expiry")
        elif "expiry" not in family.ends and not family.ends.startswith(("never", "with the test")):
            found.append(f"{key} should have ended: {family.ends}")
    return found


def family_of(world: World, key: str) -> KeyFamily | None:
    """The most particular family a key may be of."""
    families = sorted(FAMILIES.values(), key=lambda family: -len(re.sub(r"{\w+}", "", family.template)))
    for family in families:
        text = family.template.replace("{ns}", world.store.namespace).replace("{rq}", "rq:")
        if re.fullmatch(re.sub(r"{\w+}", "[^:]+", text), key):
            return family
    return None


def put_down(world: World, slot: Driver) -> None:
    """As the agent of a slot that has died does it."""
    holder = slot._bench.leases.holder
    world.store.sessions.abandon(
        holder.life, holder.queue, cause="killed", charge="task", run=world.store.run_id()
    )
