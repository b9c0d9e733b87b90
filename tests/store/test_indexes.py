"""Every route of a live execution is in exactly one index, whatever happens (G19)."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack

import pytest
import redis

from tenure.wiring import open_store
from tests.invariants import broken
from tests.store.stage import INSTANCE, Stage
from tests.store.walk import Walk

STEPS = 200
SEEDS = range(6)

INDEXES = ("leased", "due", "tasks", "environment", "unknown", "blocked")
#: What the walks have to come across to prove anything.
SIGHTS = {
    *INDEXES,
    *("execution_completed", "execution_failed", "completed", "failed", "cancelled", "retry", "lost"),
    *("handoff", "not_started", "replay", "claimed", "started"),
}


@pytest.fixture
def stage_of(url: str, redis_client: redis.Redis, namespace: str) -> Iterator[Callable[[int], Stage]]:
    """A namespace for each seed."""
    with ExitStack() as stack:

        def make(seed: int) -> Stage:
            name = f"{namespace}x{seed}"
            return Stage(stack.enter_context(open_store(url, namespace=name, test_clock=True)), redis_client)

        yield make
    for pattern in (f"{namespace}x*", f"rq:*:{namespace}x*"):
        for key in redis_client.scan_iter(match=pattern, count=1000):
            redis_client.unlink(key)


def test_every_route_is_in_exactly_one_index_after_any_step(stage_of: Callable[[int], Stage]) -> None:
    """G19, with G6: random walks over all calls, checked after each of them."""
    seen: set[str] = set()
    for seed in SEEDS:
        stage = stage_of(seed)
        walk = Walk(stage, seed)
        for done in walk.steps(STEPS):
            assert broken(stage.store) == [], f"seed {seed}, after {done}; the walk was {walk.done}"
            seen |= {
                index for index in SIGHTS if stage.client.zcard(f"{stage.store.namespace}:routes:{index}")
            }
        for listed in stage.store.listing.walk(INSTANCE):
            seen |= {event.kind for event in stage.events(listed.execution)}

        # Where nothing was lost the scheduler's check finds nothing to repair.
        for live in stage.store.duties.page("live", limit=100):
            assert stage.store.duties.repair(stage.lead(), live, lease=stage.store.settings.lease) == []

    assert seen >= SIGHTS


def test_a_result_that_comes_while_the_recipe_is_replayed_is_not_missed(stage: Stage) -> None:
    """G19: nobody would wake a recipe that waits for what is there already."""
    slot, grant = stage.task_leased()
    # Put back among those that wait, as the repair does with a route it finds nowhere.
    stage.client.zrem(stage.store.keys("tasks"), f"{INSTANCE}/e/recipe")
    stage.edit_record("e", "recipe", where=None)
    stage.store.duties.repair(stage.lead(), f"{INSTANCE}/e", lease=stage.store.settings.lease)
    replaying = stage.slot()
    recipe = stage.claim(replaying)

    stage.settle(slot, grant)
    stage.advance(replaying, recipe, "suspend", awaits={"capability": grant.capability})

    assert stage.record()["where"] == "waiting"
    assert broken(stage.store) == []


def test_a_parked_route_that_is_closed_is_not_to_be_placed(stage: Stage) -> None:
    """G19: the failure of one item closes those that nobody could admit, too."""
    slot, recipe = stage.recipe_leased()
    stage.open_map(slot, recipe, 2, queues=())
    leader, revision = stage.lead(), stage.store.sessions.revision()
    placed = stage.store.duties.place(
        leader, f"{INSTANCE}/e/0:draw:0", [(stage.queue(), 0)], registry=revision
    )
    assert placed == "placed"
    grant = stage.claim(slot)
    slot.mark_started(grant)
    assert stage.store.duties.unplaced(10) == [f"{INSTANCE}/e/0:draw:1"]

    stage.settle(slot, grant, "failed")

    assert stage.store.duties.unplaced(10) == []
    assert broken(stage.store) == []


def lose_the_entry(stage: Stage) -> None:
    stage.client.zrem(stage.store.keys("waiting", stage.queue()), f"{INSTANCE}/e/recipe")


def double_the_entry(stage: Stage) -> None:
    stage.client.zadd(stage.store.keys("due"), {f"{INSTANCE}/e/recipe": 1})


def move_the_entry(stage: Stage) -> None:
    lose_the_entry(stage)
    double_the_entry(stage)


def forget_the_flight(stage: Stage) -> None:
    stage.client.delete(stage.store.keys("in_flight", INSTANCE, "e"))


def forget_where(stage: Stage) -> None:
    stage.edit_record("e", "recipe", where=None)


def lose_the_life(stage: Stage) -> None:
    slot = stage.slot()
    stage.claim(slot)
    stage.client.delete(stage.store.keys("life_routes", slot.holder.life))


def end_without_a_move(stage: Stage) -> None:
    stage.client.hset(stage.store.keys("execution", INSTANCE, "e"), "status", "completed")


@pytest.mark.parametrize(
    "harm",
    [
        *(lose_the_entry, double_the_entry, move_the_entry, forget_the_flight, forget_where, lose_the_life),
        end_without_a_move,
    ],
)
def test_the_check_notices(stage: Stage, harm: Callable[[Stage], None]) -> None:
    """What the walks are checked with would see it."""
    stage.register()
    stage.start()
    assert broken(stage.store) == []

    harm(stage)

    assert broken(stage.store) != []
