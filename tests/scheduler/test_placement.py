from __future__ import annotations

import msgpack
import pytest

from tenure.engine.placement import Code, Placement
from tenure.model.needs import NO_NEEDS, Needs
from tenure.model.status import SessionState
from tenure.store.answers import StartAnswer
from tenure.store.outbox import OutboxEvent
from tenure.store.sessions import RegistryView
from tenure_scheduler.duties.placement import ParkedWork
from tests.posting import waiting
from tests.scheduler.world import World


@pytest.fixture
def placement(world: World) -> ParkedWork:
    return placement_of(world, limit=100)


def placement_of(world: World, *, limit: int) -> ParkedWork:
    store = world.store
    return ParkedWork(
        duties=store.duties, executions=store.executions, placement=store.placement, limit=limit
    )


def commands(world: World) -> int:
    """Commands the server has run, inside scripts too, without those that count them."""
    stats = world.client.info("commandstats")
    return sum(s["calls"] for name, s in stats.items() if name not in ("cmdstat_info", "cmdstat_ping"))


def settle(placement: ParkedWork, leader: int) -> None:
    """Run until there is no more to do."""
    for _ in range(100):
        if not placement.run_once(leader).more:
            return
    pytest.fail("placement never says that it is done")


def test_parked_work_is_placed_when_a_fitting_session_registers(
    world: World, placement: ParkedWork, leader: int
) -> None:
    world.start("e", memory="8Gi")
    settle(placement, leader)
    assert world.indexes("e") == {"environment"}
    world.register("small", memory="1Gi")
    settle(placement, leader)
    assert world.indexes("e") == {"environment"}

    queue = world.register("large", queue="large", memory="8Gi")
    settle(placement, leader)

    assert world.indexes("e") == {queue}
    assert len(world.tickets(queue)) == 1
    assert world.claim(world.slot("large", queue)).execution == "e"


def test_waiting_work_that_its_last_session_leaves_is_told_of_as_unmet(
    world: World, placement: ParkedWork, leader: int
) -> None:
    """So a pool that was scaled down to nothing can be brought back."""
    world.register("large", queue="large", memory="8Gi")
    for n in range(3):
        world.start(f"e{n}", memory="8Gi")
    assert waiting(world.store) == []

    world.store.sessions.retire("large", 1, SessionState.GONE)
    settle(placement, leader)

    (event,) = world.store.duties.due_events(limit=10)
    assert isinstance(event, OutboxEvent)
    assert event.body["kind"] == "awaiting_environment"
    assert (event.body["code"], event.body["demand"]) == ("recipe book@1", {"memory": "8Gi"})


def test_a_new_leader_tells_again_of_what_nobody_meets(world: World, leader: int) -> None:
    """The one before may have had no provisioner, or one that lost what it was told."""
    for n in range(3):
        world.start(f"e{n}", memory="8Gi")
    world.start("f", memory="16Gi")
    for told in (2, 4):
        placement = placement_of(world, limit=2)
        settle(placement, leader)
        settle(placement, leader)
        assert len(waiting(world.store)) == told


def test_a_demand_is_told_of_again_after_somebody_met_it_and_has_gone(
    world: World, placement: ParkedWork, leader: int
) -> None:
    """And not because others come and go meanwhile."""
    world.start("e", memory="8Gi")
    settle(placement, leader)
    assert len(waiting(world.store)) == 1
    world.register("small", memory="1Gi")
    settle(placement, leader)
    assert len(waiting(world.store)) == 1

    world.register("large", queue="large", memory="8Gi")
    settle(placement, leader)
    world.store.sessions.retire("large", 1, SessionState.GONE)
    settle(placement, leader)
    assert len(waiting(world.store)) == 2


def test_work_that_nobody_has_the_code_for_is_placed_when_somebody_brings_it(
    world: World, placement: ParkedWork, leader: int
) -> None:
    world.register("old", queue="old", recipes=("book@0",))
    world.start("e")
    settle(placement, leader)
    assert world.indexes("e") == {"environment"}

    queue = world.register("new", queue="new")
    settle(placement, leader)

    assert world.indexes("e") == {queue}


def test_a_session_that_registers_between_placement_and_parking_leaves_nothing_parked(world: World) -> None:
    before = world.store.placement.view()
    world.register("agent")

    answer = world.start_with("e", NO_NEEDS, [], registry=before.revision)

    assert answer is StartAnswer.STALE
    assert world.store.executions.get("default", "e") is None


def test_a_session_that_registers_during_a_walk_is_missed_by_nobody(
    world: World, placement: ParkedWork, leader: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The script refuses what was computed from an older registry, and the next run looks again."""
    world.register("first", queue="other")
    world.start("e")
    world.store.sessions.retire("first", 1, SessionState.GONE)
    view = world.store.placement.view()
    queue = world.register("agent")
    with monkeypatch.context() as patch:
        patch.setattr(world.store.placement, "view", lambda: view)
        report = placement.run_once(leader)
    assert (report.stale, report.more) == (True, True)

    settle(placement, leader)

    assert world.indexes("e") == {queue}


def test_a_session_that_registers_between_two_pages_is_offered_what_the_walk_has_passed(
    world: World, leader: int
) -> None:
    placement = placement_of(world, limit=1)
    for n in range(3):
        world.start(f"e{n}", memory="8Gi")
    settle(placement, leader)
    world.register("small", memory="1Gi")
    assert placement.run_once(leader).more
    queue = world.register("large", queue="large", memory="8Gi")

    settle(placement, leader)

    assert [world.indexes(f"e{n}") for n in range(3)] == [{queue}] * 3


def test_a_queue_whose_last_session_has_gone_returns_its_routes(
    world: World, placement: ParkedWork, leader: int
) -> None:
    queue = world.register("agent")
    for n in range(3):
        world.start(f"e{n}")
    world.store.sessions.retire("agent", 1, SessionState.DRAINING)

    settle(placement, leader)

    assert [world.indexes(f"e{n}") for n in range(3)] == [{"environment"}] * 3
    assert world.tickets(queue) == []
    assert world.store.duties.queues() == []
    assert not world.client.keys(f"rq:job:{world.store.namespace}-*")


def test_returned_routes_go_back_when_the_queue_has_a_session_again(
    world: World, placement: ParkedWork, leader: int
) -> None:
    """A deploy: the last agent of a queue goes, the next one comes."""
    world.register("old")
    world.start("e")
    world.store.sessions.retire("old", 1, SessionState.GONE)
    settle(placement, leader)

    queue = world.register("new")
    settle(placement, leader)

    assert world.indexes("e") == {queue}


def test_what_was_parked_first_is_claimed_first(world: World, placement: ParkedWork, leader: int) -> None:
    """A waiting score is the time a route became ready, whatever happened to it since."""
    for name in ("z", "m", "a"):
        world.start(name)
        world.pass_ms(10)
    settle(placement, leader)
    queue = world.register("agent")
    settle(placement, leader)

    slot = world.slot("agent", queue)

    assert [world.claim(slot).execution for _ in range(3)] == ["z", "m", "a"]


def test_pages_are_bounded_and_none_is_missed_while_entries_leave(world: World, leader: int) -> None:
    placement = placement_of(world, limit=3)
    for n in range(20):
        world.start(f"e{n}", memory="8Gi" if n % 2 else None)
    settle(placement, leader)
    queue = world.register("small", memory="1Gi")

    reports = [placement.run_once(leader)]
    while reports[-1].more:
        reports.append(placement.run_once(leader))

    assert max(report.placed for report in reports) <= 3
    assert sum(report.placed for report in reports) == 10
    assert all(world.indexes(f"e{n}") == ({"environment"} if n % 2 else {queue}) for n in range(20))


def test_a_thousand_parked_executions_cost_nothing_while_the_registry_stands_still(
    world: World, placement: ParkedWork, leader: int
) -> None:
    for n in range(1000):
        world.start(f"e{n}", memory="8Gi")
    settle(placement, leader)
    before = commands(world)

    placement.run_once(leader)

    assert commands(world) - before <= 5


def test_equal_demands_are_compared_once_per_run(
    world: World, placement: ParkedWork, leader: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    for n in range(10):
        world.start(f"e{n}", memory=f"{n % 2 + 1}Gi")
    computed: list[Needs] = []
    candidates = Placement.candidates

    def counted(view: RegistryView, needs: Needs, code: Code) -> list[tuple[str, int]]:
        computed.append(needs)
        return candidates(view, needs, code)

    monkeypatch.setattr(Placement, "candidates", counted)

    placement.run_once(leader)

    assert len(computed) == 2


@pytest.mark.parametrize("damage", ["the record", "its demand"])
def test_a_demand_that_cannot_be_read_stays_parked_and_the_others_go_on(
    world: World, placement: ParkedWork, leader: int, caplog: pytest.LogCaptureFixture, damage: str
) -> None:
    """G17: never an unconstrained job."""
    for n in range(3):
        world.start(f"e{n}")
    record = dict(world.record("e1"))
    record["demand"] = '{"job":{"quantum":"1"}}'
    raw = b"\xc1" if damage == "the record" else msgpack.packb(record)
    world.client.hset(world.store.keys("records", "default", "e1"), "recipe", raw)
    queue = world.register("agent")

    settle(placement, leader)

    assert [world.indexes(f"e{n}") for n in (0, 1, 2)] == [{queue}, {"environment"}, {queue}]
    assert world.client.hget(world.store.keys("records", "default", "e1"), "recipe") == raw
    assert any("execution e1" in record.message for record in caplog.records)
