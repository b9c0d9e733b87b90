"""Who may act on a route, and what a stale token can do (G1, G2)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from tenure.errors import LeaseLost
from tenure.store.grants import Grant, StepReply
from tenure.store.leases import SlotLeases
from tenure.store.sessions import Renewed
from tests.invariants import broken
from tests.store.racing import claim_all, race
from tests.store.stage import INSTANCE, Stage
from tests.store.writes import RECIPE_WRITES, TASK_WRITES, dump_of_data, take_over


def test_slots_that_race_for_routes_get_each_of_them_once(stage: Stage) -> None:
    """G1: at most one live lease for each route."""
    stage.register()
    for n in range(150):
        stage.start(f"e{n}")

    shares = race(4, stage, claim_all)

    routes = [route for share in shares for route, _ in share]
    assert sorted(routes) == sorted(f"{INSTANCE}/e{n}/recipe" for n in range(150))
    assert sum(bool(share) for share in shares) > 1
    assert broken(stage.store) == []


def test_an_index_entry_that_is_not_true_grants_nothing(stage: Stage) -> None:
    """G1: the record says who has the route; an entry that a failover brought back goes."""
    slot, recipe = stage.recipe_leased()
    waiting = stage.store.keys("waiting", stage.queue())
    stage.client.zadd(waiting, {recipe.route: 0})

    assert stage.slot().claim() is None

    assert stage.client.zcard(waiting) == 0
    assert stage.record()["token"] == recipe.token
    stage.advance(slot, recipe, "complete", result=b"\x01\x01")


def test_tokens_of_a_route_only_grow(stage: Stage) -> None:
    """G2: an outside store that keeps the greatest token it has seen refuses everybody but the owner."""
    slot, recipe = stage.recipe_leased()
    tokens = [recipe.token]
    for _ in range(3):
        slot.reschedule(recipe, reason="drain")
        recipe = stage.claim(slot)
        tokens.append(recipe.token)
    # A primary whose clock is behind must not hand out a token a second time.
    stage.pass_ms(-3_600_000)
    slot.reschedule(recipe, reason="drain")
    tokens.append(stage.claim(slot).token)

    assert tokens == sorted(set(tokens))
    assert tokens[-1] == tokens[-2] + 1


def result_of_chained(run: StepReply) -> dict[str, Any]:
    """The result of the task `0:draw` that was run in a chain."""
    outcome = {"status": "completed", "outcome": "completed", "result": b"\x01\x01"}
    return {"capability": "0:draw", "token": run.run_token, **outcome}


def superseded(stage: Stage, slot: SlotLeases, grant: Grant) -> None:
    take_over(stage, grant.route)
    stage.claim(stage.slot())


def lapsed_and_given_back(stage: Stage, slot: SlotLeases, grant: Grant) -> None:
    take_over(stage, grant.route)


def abandoned(stage: Stage, slot: SlotLeases, grant: Grant) -> None:
    holder = slot.holder
    stage.store.sessions.abandon(holder.life, holder.queue, cause="killed", charge=None, run=holder.run)


def given_back(stage: Stage, slot: SlotLeases, grant: Grant) -> None:
    slot.reschedule(grant, reason="drain")


def given_back_and_claimed(stage: Stage, slot: SlotLeases, grant: Grant) -> None:
    slot.reschedule(grant, reason="drain")
    stage.claim(stage.slot())


Loss = Callable[[Stage, SlotLeases, Grant], None]
LOSSES: list[Loss] = [superseded, lapsed_and_given_back, abandoned, given_back, given_back_and_claimed]


@pytest.mark.parametrize("lose", LOSSES, ids=lambda lose: lose.__name__)
@pytest.mark.parametrize("write", TASK_WRITES)
def test_a_stale_token_of_a_task_changes_nothing(stage: Stage, write: str, lose: Loss) -> None:
    """G2: whoever has lost a route is told so, and nothing of what it says is stored."""
    slot, grant = stage.task_leased(started=lose in (superseded, lapsed_and_given_back))
    lose(stage, slot, grant)
    before = dump_of_data(stage)

    # A life of its own, so that it is the token that is refused and not the dead slot's sequence.
    with pytest.raises(LeaseLost, match="execution e"):
        TASK_WRITES[write](stage, stage.slot(), grant)

    assert dump_of_data(stage) == before


@pytest.mark.parametrize("lose", LOSSES, ids=lambda lose: lose.__name__)
@pytest.mark.parametrize("write", RECIPE_WRITES)
def test_a_stale_token_of_a_recipe_changes_nothing(stage: Stage, write: str, lose: Loss) -> None:
    """G2, for the recipe route: a frame that somebody else replays, or may replay, is void."""
    slot, grant = stage.recipe_leased()
    lose(stage, slot, grant)
    before = dump_of_data(stage)

    with pytest.raises(LeaseLost, match="execution e"):
        RECIPE_WRITES[write](stage, stage.slot(), grant)

    assert dump_of_data(stage) == before


@pytest.mark.parametrize("write", RECIPE_WRITES)
def test_a_recipe_that_was_suspended_cannot_be_gone_on_with(stage: Stage, write: str) -> None:
    """G2: suspending released the token; only the lease on the task of its chain keeps a frame live."""
    slot, recipe = stage.recipe_leased()
    stage.suspend(slot, recipe, stage.spec(0))
    before = dump_of_data(stage)

    with pytest.raises(LeaseLost):
        RECIPE_WRITES[write](stage, slot, recipe)

    assert dump_of_data(stage) == before


def test_a_frame_goes_on_by_the_lease_of_the_task_it_ran(stage: Stage) -> None:
    """G2: in a chain the recipe lease is free, and taken back with the result of the task."""
    slot, recipe = stage.recipe_leased()
    run = stage.advance(slot, recipe, "run", open=stage.spec(0))
    assert stage.record()["where"] == "tasks"

    reply = slot.step(
        instance=INSTANCE,
        execution="e",
        settle=result_of_chained(run),
        recipe={"frame": recipe.token, "token": recipe.token, "action": "hold"},
    )

    assert reply.recipe_token
    assert reply.recipe_token > recipe.token
    assert stage.record()["token"] == reply.recipe_token
    assert stage.record("e", "0:draw")["status"] == "completed"


def test_a_result_is_recorded_where_the_frame_is_void(stage: Stage) -> None:
    """G2, G4: the task's own lease is good, so its result counts; what the frame asks for does not."""
    slot, recipe = stage.recipe_leased()
    run = stage.advance(slot, recipe, "run", open=stage.spec(0))
    # A failover has lost where the recipe was, the repair has put it back, and another slot has replayed it.
    stage.client.zrem(stage.store.keys("tasks"), recipe.route)
    stage.edit_record("e", "recipe", where=None)
    stage.store.duties.repair(stage.lead(), f"{INSTANCE}/e", lease=stage.store.settings.lease)
    other = stage.slot()
    stage.advance(other, stage.claim(other), "suspend", awaits={"capability": "0:draw"})

    reply = slot.step(
        instance=INSTANCE,
        execution="e",
        settle=result_of_chained(run),
        recipe={"frame": recipe.token, "token": recipe.token, "action": "run", "open": stage.spec(1)},
        claim=True,
    )

    assert reply.answer == "frame_lost"
    assert reply.grant is not None
    assert reply.grant.is_recipe
    assert {name: r["status"] for name, r in stage.stored().capabilities.items()} == {"0:draw": "completed"}


def test_a_lapsed_lease_that_nobody_has_superseded_may_be_renewed(stage: Stage) -> None:
    """G2: elapsed time alone takes nothing away; the takeover does, and it reads the lease again."""
    slot, grant = stage.task_leased()
    leader = stage.lead()
    stage.let_leases_lapse()

    pairs = [(grant.route, grant.token, True)]
    assert stage.store.sessions.renew("agent", 1, pairs, lease_ms=stage.lease_ms) == Renewed()

    assert stage.store.duties.take_over(leader, grant.route, cause="lapsed") == "live"
    stage.settle(slot, grant)
    assert stage.record("e", "0:draw")["status"] == "completed"


def test_a_lease_that_was_taken_over_cannot_be_renewed(stage: Stage) -> None:
    """G2: the slot is told which of its routes it has lost."""
    _, grant = stage.task_leased()
    take_over(stage, grant.route)

    pairs = [(grant.route, grant.token, True)]
    assert stage.store.sessions.renew("agent", 1, pairs, lease_ms=stage.lease_ms) == Renewed(
        lost=frozenset({(grant.route, grant.token)})
    )
