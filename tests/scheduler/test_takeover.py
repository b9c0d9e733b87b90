from __future__ import annotations

import pytest

from tenure.errors import LeaseLost
from tenure.settings import Settings
from tenure.store.answers import TakeoverAnswer
from tenure.store.sessions import Renewed
from tenure.wiring import open_store
from tenure_scheduler.contact import Contact
from tenure_scheduler.duties.takeover import TakeoverScan
from tests.scheduler.own_server import OwnServer
from tests.scheduler.world import World

TASK = "draw#1"


@pytest.fixture
def scan(world: World) -> TakeoverScan:
    return TakeoverScan(duties=world.store.duties, contact=Contact(Settings()))


def test_a_lease_lapses_by_the_stores_clock_and_not_before(
    world: World, scan: TakeoverScan, leader: int
) -> None:
    """G3."""
    slot, _ = world.claim_task()
    world.pass_ms(14_900)
    assert scan.run_once(leader).taken == 0

    world.pass_ms(101)

    assert scan.run_once(leader).taken == 1
    assert world.indexes("e", TASK) == {slot.holder.queue}


def test_a_renewed_lease_is_left_alone(world: World, scan: TakeoverScan, leader: int) -> None:
    _, grant = world.claim_task()
    world.pass_ms(10_000)
    world.renew_lease("agent", grant)
    world.pass_ms(10_000)

    assert scan.run_once(leader).taken == 0


def test_a_candidate_renewed_after_its_page_was_read_is_left_alone(world: World, leader: int) -> None:
    _, grant = world.claim_task()

    answer = world.store.duties.take_over(leader, grant.route, cause="")

    assert answer is TakeoverAnswer.LIVE
    assert world.indexes("e", TASK) == {"leased"}


def test_a_lapsed_lease_that_nobody_superseded_may_be_renewed(
    world: World, scan: TakeoverScan, leader: int
) -> None:
    """G2."""
    _, grant = world.claim_task()
    world.pass_lease()
    assert world.renew_lease("agent", grant) == Renewed()

    assert scan.run_once(leader).taken == 0


def test_a_claim_that_never_started_goes_back_with_its_attempt_uncounted(
    world: World, scan: TakeoverScan, leader: int
) -> None:
    slot, _ = world.claim_task()
    world.pass_lease()

    scan.run_once(leader)

    record = world.record("e", TASK)
    assert (record["attempt"], record["crashes"], record["invocation"]) == (1, 0, "dispatching")
    assert world.causes("e") == []
    assert "not_started" in world.events("e")
    assert world.claim(slot).attempt == 1


def test_a_started_repeatable_task_runs_again_with_its_cause(
    world: World, scan: TakeoverScan, leader: int
) -> None:
    slot, grant = world.claim_task()
    slot.mark_started(grant)
    world.pass_lease()

    scan.run_once(leader)

    assert world.causes("e") == ["its lease lapsed: no renewal from session agent"]
    again = world.claim(slot)
    assert again.attempt == 2
    assert again.token > grant.token


def test_what_takes_its_host_down_fails_after_as_many_lapses_as_crashes(
    world: World, scan: TakeoverScan, leader: int
) -> None:
    slot, grant = world.claim_task()
    for _ in range(2):
        slot.mark_started(grant)
        world.pass_lease()
        world.renew("agent")
        scan.run_once(leader)
        grant = world.claim(slot)
    assert grant.attempt == 3
    slot.mark_started(grant)
    world.pass_lease()
    scan.run_once(leader)

    record = world.record("e", TASK)
    assert record["status"] == "failed"
    assert record["error"].count("its lease lapsed") == 3


def test_a_started_once_task_becomes_unknown(world: World, scan: TakeoverScan, leader: int) -> None:
    """G7: elapsed time is no evidence, so nothing is dispatched."""
    slot, grant = world.claim_task(effects="once")
    slot.mark_started(grant)
    world.pass_lease()

    scan.run_once(leader)

    assert world.indexes("e", TASK) == {"unknown"}
    assert world.record("e", TASK)["invocation"] == "unknown"
    assert world.tickets(slot.holder.queue) == []
    assert slot.claim() is None


def test_the_writes_of_who_was_taken_over_are_refused(world: World, scan: TakeoverScan, leader: int) -> None:
    """G2."""
    slot, grant = world.claim_task()
    world.pass_lease()
    scan.run_once(leader)

    with pytest.raises(LeaseLost):
        slot.mark_started(grant)


def test_a_lapsed_recipe_lease_is_replayed_by_the_next(world: World, scan: TakeoverScan, leader: int) -> None:
    slot = world.slot("agent", world.register("agent"))
    world.start("e")
    first = world.claim(slot)
    world.pass_lease()

    scan.run_once(leader)

    second = world.claim(slot)
    assert second.is_recipe
    assert second.token > first.token


@pytest.mark.parametrize("noticed", [True, False], ids=["noticed", "not yet noticed by the leader"])
def test_nothing_is_taken_over_for_one_lease_after_a_restart(
    world: World, scan: TakeoverScan, leader: int, *, noticed: bool
) -> None:
    """Nobody could renew while the server was away. The script sees it, even if the leader has not."""
    world.claim_task()
    world.pass_lease()
    world.restart_server()
    if noticed:
        world.lead()

    report = scan.run_once(leader)

    assert (report.taken, report.grace) == (0, True)
    world.lead()
    world.pass_lease()
    assert scan.run_once(leader).taken == 1


def test_a_run_takes_one_page_and_says_that_there_is_more(world: World, leader: int) -> None:
    scan = TakeoverScan(duties=world.store.duties, contact=Contact(Settings()), limit=2)
    slot = world.slot("agent", world.register("agent"))
    for n in range(5):
        world.start(f"e{n}")
        world.claim(slot)
    world.pass_lease()

    reports = [scan.run_once(leader) for _ in range(3)]

    assert [(r.taken, r.more) for r in reports] == [(2, True), (2, True), (1, False)]


def test_what_cannot_be_read_stays_and_the_others_go_on(
    world: World, leader: int, caplog: pytest.LogCaptureFixture
) -> None:
    """G17: an error that names the execution and keeps the bytes."""
    scan = TakeoverScan(duties=world.store.duties, contact=Contact(Settings()), limit=2)
    slot = world.slot("agent", world.register("agent"))
    for n in range(4):
        world.start(f"e{n}")
        world.claim(slot)
    broken = world.store.keys("records", "default", "e0")
    world.client.hset(broken, "recipe", b"\xc1 not msgpack")
    world.pass_lease()

    reports = [scan.run_once(leader) for _ in range(3)]

    assert [r.taken for r in reports] == [1, 2, 0]
    assert world.client.hget(broken, "recipe") == b"\xc1 not msgpack"
    assert [record.message for record in caplog.records if "default/e0/recipe" in record.message]


def test_work_is_taken_over_on_a_full_server(namespace: str) -> None:
    with (
        OwnServer() as server,
        open_store(server.url, namespace=namespace, settings=Settings(), test_clock=True) as store,
    ):
        world = World(store, store.client)
        scan = TakeoverScan(duties=store.duties, contact=Contact(Settings()))
        slot, _ = world.claim_task()
        world.pass_lease()
        world.lead()
        store.client.config_set("maxmemory", 1)

        assert scan.run_once(world.lead()).taken == 1
        assert world.indexes("e", TASK) == {slot.holder.queue}
