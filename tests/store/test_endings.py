"""How an execution ends (G6)."""

from __future__ import annotations

import pytest

from tenure.errors import LeaseLost
from tests.invariants import broken
from tests.store.racing import finish_all, race
from tests.store.stage import INSTANCE, Stage


def test_of_two_processes_that_end_an_execution_one_wins(stage: Stage) -> None:
    """G6: one terminal transition wins, and its reason survives."""
    stage.register()
    slot, recipes = stage.slot(), []
    for n in range(100):
        stage.start(f"e{n}")
        recipes.append(stage.claim(slot))

    completed, failed = race(2, stage, finish_all, recipes)

    assert sorted(completed + failed) == sorted(recipe.execution for recipe in recipes)
    for execution in completed:
        assert (stage.stored(execution).status, stage.stored(execution).error) == ("completed", None)
    for execution in failed:
        assert (stage.stored(execution).status, stage.stored(execution).error) == ("failed", "it broke")
        assert stage.store.executions.result(INSTANCE, execution) is None
    assert broken(stage.store) == []


def test_the_terminal_step_revokes_every_other_lease(stage: Stage) -> None:
    """G6: in the same script; and nothing is in flight or in any index then."""
    slot, recipe = stage.recipe_leased(crash_limit=1)
    stage.open_map(slot, recipe, 5, window=4)
    claimed, running, dying = stage.slot(), stage.slot(), stage.slot()
    grants = {one: stage.claim(one) for one in (claimed, running, dying)}
    for one in (running, dying):
        one.mark_started(grants[one])
    # The death of this slot is charged to the recipe, which may not survive any.
    holder = dying.holder
    stage.store.sessions.abandon(holder.life, holder.queue, cause="killed", charge="recipe", run=holder.run)

    stored = stage.stored()
    assert (stored.status, stored.error) == ("failed", "the recipe killed 1 slots: killed")
    assert {r["status"] for name, r in stored.capabilities.items() if name != "0:draw"} == {"cancelled"}
    assert stage.flight() == set()
    assert broken(stage.store) == []
    for one in (claimed, running):
        with pytest.raises(LeaseLost):
            stage.settle(one, grants[one])


def test_the_end_waits_for_a_once_task_and_is_carried_out_when_that_is_settled(stage: Stage) -> None:
    """G6: nobody may say that it is over while a charge may be under way; its intent is kept meanwhile."""
    slot, recipe = stage.recipe_leased(crash_limit=1)
    stage.open_map(slot, recipe, 3, window=3, effects="once")
    charging, dying = stage.slot(), stage.slot()
    grant = stage.claim(charging)
    charging.mark_started(grant)
    stage.claim(dying)
    holder = dying.holder
    stage.store.sessions.abandon(holder.life, holder.queue, cause="killed", charge="recipe", run=holder.run)

    assert stage.stored().status == "running"
    assert stage.client.hget(stage.store.keys("execution", INSTANCE, "e"), "intent")
    assert broken(stage.store) == []

    stage.settle(charging, grant)

    stored = stage.stored()
    assert (stored.status, stored.error) == ("failed", "the recipe killed 1 slots: killed")
    assert stored.records[grant.capability]["status"] == "completed"
    assert stage.client.hget(stage.store.keys("execution", INSTANCE, "e"), "intent") is None
    assert broken(stage.store) == []


def test_in_flight_is_a_set_that_ends_empty(stage: Stage) -> None:
    """G6: what is in flight counts once however often it is dispatched, and nothing is left at the end."""
    slot, recipe = stage.recipe_leased()
    stage.suspend(slot, recipe, stage.spec(0))
    grant = stage.claim(slot)
    for _ in range(3):
        slot.reschedule(grant, reason="drain")
        grant = stage.claim(slot)
    assert stage.flight() == {"recipe", "0:draw"}
    slot.mark_started(grant)

    reply = stage.settle(slot, grant, claim=True)
    assert reply.grant is not None
    assert stage.flight() == {"recipe"}
    stage.advance(slot, reply.grant, "complete", result=b"\x01\x01")

    assert stage.flight() == set()
    assert broken(stage.store) == []
    assert stage.client.zrange(stage.store.keys("live"), 0, -1) == []
