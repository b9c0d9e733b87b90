from __future__ import annotations

from collections.abc import Callable

import msgpack
import pytest

from tenure.model.status import RouteIndex
from tenure.settings import Settings
from tenure.store.keys import RECIPE, route_member
from tenure_scheduler.duties.repair import IndexRepair
from tests.scheduler.world import World

TASK = "draw#1"


@pytest.fixture
def repair(world: World) -> IndexRepair:
    return IndexRepair(duties=world.store.duties, settings=Settings())


def waiting(world: World) -> str:
    world.register("agent")
    world.start("e")
    return RECIPE


def leased(world: World) -> str:
    world.claim_task()
    return TASK


def due(world: World) -> str:
    slot, grant = world.claim_task()
    slot.mark_started(grant)
    slot.retry(grant, error="no", error_type="No", delay_ms=60_000, in_place_ms=0, claim=False)
    return TASK


def tasks(world: World) -> str:
    world.claim_task()
    return RECIPE


def environment(world: World) -> str:
    world.start("e")
    return RECIPE


def unknown(world: World) -> str:
    slot, grant = world.claim_task(effects="once")
    slot.mark_started(grant)
    world.store.sessions.abandon(
        slot.holder.life, slot.holder.queue, cause="killed", charge="task", run=slot.holder.run
    )
    return TASK


def blocked(world: World) -> str:
    slot = world.slot("agent", world.register("agent"))
    world.start("e")
    grant = world.claim(slot)
    slot.step(
        instance="default",
        execution="e",
        recipe={"frame": grant.token, "token": grant.token, "action": "block", "error": "no"},
    )
    return RECIPE


@pytest.mark.parametrize("state", [waiting, leased, due, tasks, environment, unknown, blocked])
def test_an_entry_that_was_lost_is_put_back(
    world: World, repair: IndexRepair, leader: int, state: Callable[[World], str]
) -> None:
    """G19."""
    capability = state(world)
    route = route_member("default", "e", capability)
    record = world.record("e", capability)
    before = world.indexes("e", capability)
    assert len(before) == 1
    key = world.store.keys.index(RouteIndex(record["where"]), record.get("queue"))
    score = world.client.zscore(key, route)
    world.client.zrem(key, route)
    assert world.indexes("e", capability) == set()

    report = repair.run_once(leader)

    assert report.repaired == 1
    assert world.indexes("e", capability) == before
    assert world.record("e", capability) == record
    if state is not leased:  # its lease begins anew
        assert world.client.zscore(key, route) == score
    assert "repaired" in world.events("e")
    assert repair.run_once(leader).repaired == 0


@pytest.mark.parametrize("state", [waiting, leased, due, tasks, environment, unknown, blocked])
def test_an_entry_in_a_second_index_goes(
    world: World, repair: IndexRepair, leader: int, state: Callable[[World], str]
) -> None:
    """G19: in exactly one."""
    capability = state(world)
    right = world.indexes("e", capability)
    wrong = "blocked" if right != {"blocked"} else "leased"
    world.client.zadd(world.store.keys(wrong), {route_member("default", "e", capability): 1})

    repair.run_once(leader)

    assert world.indexes("e", capability) == right


def test_a_recipe_that_was_not_woken_is_woken(world: World, repair: IndexRepair, leader: int) -> None:
    slot, grant = world.claim_task()
    slot.mark_started(grant)
    slot.step(
        instance="default",
        execution="e",
        settle={
            "capability": TASK,
            "token": grant.token,
            "status": "completed",
            "outcome": "completed",
            "result": b"",
        },
    )
    # As if the wake had been lost with the server.
    asleep = {**world.record("e"), "where": "tasks", "queue": None, "awaits": {"capability": TASK}}
    overwrite(world, asleep)
    world.client.zrem(world.store.keys("waiting", slot.holder.queue), "default/e/recipe")
    world.client.zadd(world.store.keys("tasks"), {"default/e/recipe": 1})

    assert repair.run_once(leader).repaired == 1

    assert world.indexes("e") == {slot.holder.queue}


def test_a_route_that_waits_in_a_queue_nobody_knows_is_placed_anew(
    world: World, repair: IndexRepair, leader: int
) -> None:
    queue = world.register("agent")
    other = world.register("other", queue="other")
    world.start("e")
    (where,) = world.indexes("e")
    for key in ("waiting", "queue", "queue_sessions"):
        world.client.delete(world.store.keys(key, where))
    world.client.srem(world.store.keys("queues"), where)

    assert repair.run_once(leader).repaired == 1

    assert world.indexes("e") == {queue, other} - {where}


def test_unknown_work_is_not_dispatched_by_repair(world: World, repair: IndexRepair, leader: int) -> None:
    """G7."""
    unknown(world)
    overwrite(world, {**world.record("e", TASK), "where": None}, TASK)
    world.client.zrem(world.store.keys("unknown"), route_member("default", "e", TASK))

    repair.run_once(leader)

    assert world.indexes("e", TASK) == {"unknown"}


def test_a_terminal_execution_leaves_the_live_ones(world: World, repair: IndexRepair, leader: int) -> None:
    world.client.zadd(world.store.keys("live"), {"default/deleted": 1})

    repair.run_once(leader)

    assert world.client.zcard(world.store.keys("live")) == 0


def test_runs_go_round_and_round_a_page_at_a_time(world: World, leader: int) -> None:
    repair = IndexRepair(duties=world.store.duties, settings=Settings(), limit=2)
    for n in range(5):
        world.start(f"e{n}")

    assert [repair.run_once(leader).checked for _ in range(6)] == [2, 2, 1, 2, 2, 1]

    for n in range(5):
        world.client.zrem(world.store.keys("environment"), f"default/e{n}/recipe")
    assert sum(repair.run_once(leader).repaired for _ in range(3)) == 5


def overwrite(world: World, record: dict[str, object], capability: str = RECIPE) -> None:
    kept = {name: value for name, value in record.items() if value is not None}
    world.client.hset(world.store.keys("records", "default", "e"), capability, msgpack.packb(kept))
