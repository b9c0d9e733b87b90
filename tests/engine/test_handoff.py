"""Giving back what a slot cannot do, and setting aside what nobody can read."""

from __future__ import annotations

from typing import Any

import pytest

from tenure import Needs, Run, TaskContext, recipe, task
from tenure.engine.handoff import HandoffEvent
from tenure.model.allocation import Allocation
from tenure.model.demand import Demand
from tenure_workers.admission import Admission
from tests.engine.handoffs import leases_of, start_in
from tests.engine.site import INSTANCE, Site
from tests.invariants import broken

SMALL, MEDIUM, BIG = Allocation(memory="1Gi"), Allocation(memory="2Gi"), Allocation(memory="8Gi")
NEEDS = Needs(memory="4Gi")


@task
def work() -> str:
    return "worked"


@recipe(needs=NEEDS)
def demanding(run: Run) -> str:
    return "done"


@recipe
def modest(run: Run) -> str:
    return "done"


def test_a_route_that_a_slot_lacks_the_needs_for_is_given_back_untouched(site: Site) -> None:
    """G11: the same route and coordinates, no attempt, and the event says what was missing."""
    told: list[tuple[HandoffEvent, str]] = []

    def tell(event: HandoffEvent) -> None:
        told.append((event, site.record(handle)["where"]))

    small = site.slot(demanding, allocation=SMALL, on_handoff=tell)
    big = site.slot(demanding, allocation=BIG)
    handle = start_in(site, [small, big], demanding)
    before = site.record(handle)
    small.drain()

    after = site.record(handle)
    untouched = ("attempt", "failures", "crashes", "demand", "revision", "status", "ordinal")
    assert {name: after[name] for name in untouched} == {
        **{name: before[name] for name in untouched},
        "status": after["status"],
    }
    assert (after["where"], after["queue"], after["attempt"]) == ("waiting", leases_of(big).holder.queue, 1)
    (handed_off,) = [event for event in handle.events() if event.kind == "handoff"]
    assert handed_off.data["reason"] == "environment_required"
    assert "4Gi" in handed_off.data["mismatches"][0]
    assert after["handed_off"] == handed_off.data["allocation"] == "memory=1Gi"
    assert handle.snapshot().attempts == []
    # Told only after the store had acknowledged it.
    ((event, where),) = told
    assert where == "waiting"
    assert (event.kind, event.execution, event.demand) == ("environment_required", "e", Demand(recipe=NEEDS))
    assert (event.route, event.allocation) == ("default/e/recipe", SMALL)
    assert not event.published

    big.drain()
    assert handle.result(1) == "done"


def test_a_queue_is_not_offered_again_what_it_handed_off(site: Site) -> None:
    """G11: as long as the demand is the same, whatever placement thinks; it parks instead."""
    small = site.slot(demanding, allocation=SMALL)
    handle = start_in(site, [small], demanding)
    small.drain()

    assert site.record(handle)["where"] == "environment"
    revision = site.store.sessions.revision()
    route = "default/e/recipe"
    placed = site.store.duties.place(
        site.lead(), route, [(leases_of(small).holder.queue, 0)], registry=revision
    )
    assert placed == "parked"
    assert "no worker can take the recipe" in handle.explain().summary
    assert "memory: needs 4Gi (recipe), has 1Gi" in handle.explain().summary
    small.drain()
    assert [event.kind for event in handle.events()].count("handoff") == 1


def test_a_queue_that_hands_off_what_it_seems_to_have_is_named(site: Site) -> None:
    """A slot may know better than its registration; nobody should wait for it in vain."""
    slot = site.slot(demanding, allocation=BIG)
    mistaken = Admission(leases_of(slot), SMALL, presence=slot._bench.presence)
    slot._bench.admission = mistaken
    handle = site.run(demanding)
    slot.drain()

    assert site.record(handle)["where"] == "environment"
    assert "it has handed this off, and is not offered it again" in handle.explain().summary


def test_a_route_does_not_go_round_between_two_queues_that_lack_its_needs(site: Site) -> None:
    """G11: each of them is offered it once."""
    small, medium = site.slot(demanding, allocation=SMALL), site.slot(demanding, allocation=MEDIUM)
    big = site.slot(demanding, allocation=BIG)
    handle = start_in(site, [small, medium, big], demanding)
    for slot in (small, medium, small, medium, big):
        slot.drain()

    assert handle.result(1) == "done"
    assert [event.kind for event in handle.events()].count("handoff") == 2


def test_a_route_whose_code_is_not_loaded_is_given_back(site: Site) -> None:
    """Design 4: an execution only goes where its code is."""
    other, right = site.slot(modest, allocation=SMALL), site.slot(demanding, allocation=BIG)
    handle = start_in(site, [other, right], demanding)
    other.drain()

    (handed_off,) = [event for event in handle.events() if event.kind == "handoff"]
    assert handed_off.data["reason"] == "code_required"
    assert handed_off.data["mismatches"] == ["demanding@1 is not loaded here"]
    right.drain()
    assert handle.result(1) == "done"


def test_a_task_that_does_not_fit_here_gets_a_route_of_its_own(site: Site) -> None:
    """G11: opening it elsewhere is the handoff; the recipe waits, and no slot with it."""

    @task(needs=NEEDS)
    def heavy() -> str:
        return "heavy"

    @recipe
    def mixed(run: Run) -> list[str]:
        return [run.call(work), run.call(heavy), run.call(work)]

    definitions = (work, heavy, mixed)
    small = site.slot(*definitions, allocation=SMALL)
    handle = site.run(mixed)
    small.drain()
    record = site.record(handle, "1:heavy")
    assert (record["where"], record["demand"]) == ("environment", '{"task":{"memory":"4Gi"}}')
    assert "memory" in handle.explain().summary

    site.slot(*definitions, allocation=BIG).drain()
    small.drain()

    assert handle.result(1) == ["worked", "heavy", "worked"]
    assert site.kinds(handle, "1:heavy").count("claimed") == 1


@pytest.mark.parametrize(
    "demand",
    [
        '{"job":{"memory":"lots"}}',
        '{"job":{"quantum":"2"}}',
        '{"galaxy":{"memory":"1Gi"}}',
        '{"job":[]}',
        '{"at":7}',
        "[]",
        "null",
        "",
        "memory=1Gi",
        0,
        False,
        [],
        {"memory": "1Gi"},
        b"\xff\xfe",
    ],
)
def test_malformed_demand_stops_its_own_execution_only(site: Site, demand: Any) -> None:
    """G17: never an unconstrained job. The error names the execution, and the bytes are kept."""
    slot = site.slot(demanding, modest, allocation=BIG)
    handle, other = site.run(demanding), site.run(modest)
    site.edit_record(handle, demand=demand)
    kept = site.record(handle)["demand"]
    slot.drain()

    assert other.result(1) == "done"
    record = site.record(handle)
    assert (record["where"], record["demand"]) == ("blocked", kept)
    assert f"execution {handle.id}: the demand of recipe" in record["error"]
    assert handle.explain().reason == "blocked"
    assert broken(site.store) == []

    site.edit_record(handle, demand=Demand(recipe=NEEDS).published)
    site.put_back(handle)
    slot.drain()
    assert handle.result(1) == "done"


def test_input_that_cannot_be_read_stops_its_own_execution_only(site: Site) -> None:
    """G17, for the input of a recipe; one of a newer schema here."""
    slot = site.slot(demanding, modest, allocation=BIG)
    handle, other = site.run(demanding), site.run(modest)
    params = site.store.keys("params", INSTANCE, handle.id)
    site.redis.hset(params, "recipe", b"\x02\x80")
    slot.drain()

    assert other.result(1) == "done"
    assert handle.explain().reason == "blocked"
    assert "schema version 2" in handle.explain().summary
    assert site.redis.hget(params, "recipe") == b"\x02\x80"

    site.redis.hset(params, "recipe", b"\x01\x80")
    site.put_back(handle)
    slot.drain()
    assert handle.result(1) == "done"


def test_a_result_that_cannot_be_read_stops_its_own_execution_only(site: Site) -> None:
    """G17: replay does not take it for a failed task, which a recipe might catch and run on."""

    @task(needs=NEEDS)
    def heavy() -> str:
        return "heavy"

    @recipe
    def mixed(run: Run) -> str:
        try:
            return run.call(work) + run.call(heavy)
        except Exception:  # noqa: BLE001  # as careless code does
            return "went on"

    small = site.slot(work, heavy, mixed, allocation=SMALL)
    handle = site.run(mixed)
    small.drain()
    results = site.store.keys("results", INSTANCE, handle.id)
    kept = site.redis.hget(results, "0:work")
    assert kept is not None
    site.redis.hset(results, "0:work", b"\x01\xc1")

    big = site.slot(work, heavy, mixed, allocation=BIG)
    big.drain()
    small.drain()
    assert handle.explain().reason == "blocked"
    assert f"execution {handle.id}: 0:work" in handle.explain().summary

    site.redis.hset(results, "0:work", kept)
    site.put_back(handle)
    small.drain()
    big.drain()
    assert handle.result(1) == "workedheavy"


def test_parameters_of_a_task_that_cannot_be_read_stop_its_own_execution_only(site: Site) -> None:
    """G17: it is no failure of the task, which has not run."""

    @task(needs=NEEDS)
    def heavy(n: int) -> int:
        return n

    @recipe
    def mixed(run: Run) -> int:
        return run.call(heavy, 7)

    small = site.slot(heavy, mixed, allocation=SMALL)
    handle = site.run(mixed)
    small.drain()
    params = site.store.keys("params", INSTANCE, handle.id)
    kept = site.redis.hget(params, "0:heavy")
    assert kept is not None
    site.redis.hset(params, "0:heavy", b"\x02\x80")
    big = site.slot(heavy, mixed, modest, allocation=BIG)
    other = site.run(modest)
    big.drain()

    assert other.result(1) == "done"
    assert handle.status() == "running"
    record = site.record(handle, "0:heavy")
    assert (record["where"], record["attempt"]) == ("blocked", 1)
    assert handle.id in record["error"]

    site.redis.hset(params, "0:heavy", kept)
    site.put_back(handle, "0:heavy")
    big.drain()
    small.drain()
    assert handle.result(1) == 7


def test_a_directive_that_cannot_be_read_stops_its_own_execution_only(site: Site) -> None:
    """G17: no requirement is accepted, and no recipe takes it for an error that it may catch."""

    @task(needs=NEEDS)
    def heavy(ctx: TaskContext) -> str:
        ctx.suspend(Needs(memory="2Gi"))
        return "heavy"

    @recipe
    def careless(run: Run) -> str:
        try:
            return run.call(heavy)
        except Exception:  # noqa: BLE001  # as careless code does
            return "went on"

    small = site.slot(heavy, careless, modest, allocation=SMALL)
    handle = site.run(careless)
    small.drain()
    big = site.slot(heavy, careless, allocation=BIG)
    big.drain()
    kept = site.record(handle, "0:heavy")["directive"]
    site.edit_record(handle, "0:heavy", directive='{"memory":"lots"}')
    other = site.run(modest)
    small.drain()

    assert other.result(1) == "done"
    assert site.record(handle)["where"] == "blocked"
    assert f"execution {handle.id}: the requirements of 0:heavy" in handle.explain().summary
    assert (handle.snapshot().job_needs, handle.snapshot().checkpoints) == (Needs(), {})
    assert broken(site.store) == []

    site.edit_record(handle, "0:heavy", directive=kept)
    site.put_back(handle)
    small.drain()
    site.place_parked()
    big.drain()
    assert handle.result(1) == "heavy"
    assert handle.snapshot().job_needs == Needs(memory="2Gi")


def test_requirements_that_cannot_be_read_stop_their_own_execution_only(site: Site) -> None:
    """G17: the slot that meets them goes on with other work."""
    slot = site.slot(work, modest, allocation=SMALL)
    handle, other = site.run(modest, needs=Needs(memory="1Gi")), site.run(modest)
    header = site.store.keys("execution", INSTANCE, handle.id)
    kept = site.redis.hget(header, "job_needs")
    assert kept is not None
    site.redis.hset(header, "job_needs", '{"memory":"lots"}')
    slot.drain()

    assert other.result(1) == "done"
    assert site.redis.hget(header, "job_needs") == b'{"memory":"lots"}'
    site.redis.hset(header, "job_needs", kept)
    record = site.record(handle)
    assert (record["where"], record["attempt"], record["crashes"]) == ("blocked", 1, 0)
    assert f"execution {handle.id}: its requirements" in record["error"]
    assert broken(site.store) == []

    site.put_back(handle)
    slot.drain()
    assert handle.result(1) == "done"
