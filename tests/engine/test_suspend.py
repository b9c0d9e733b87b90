"""`ctx.suspend`: a task requires another environment from its end on."""

from __future__ import annotations

from tenure import Needs, Run, TaskContext, recipe, task
from tenure.engine.handoff import HandoffEvent
from tenure.model.allocation import Allocation
from tests.engine.site import Site

SMALL, BIG = Allocation(memory="1Gi"), Allocation(memory="8Gi")


def test_what_follows_a_suspension_runs_where_it_is_met(site: Site) -> None:
    """The task of a suspension is not run again; its requirements are those of the whole execution."""
    ran: list[str] = []
    told: list[HandoffEvent] = []

    @task
    def first(ctx: TaskContext) -> str:
        ran.append("first")
        ctx.suspend(Needs(memory="2Gi"))
        ctx.suspend(Needs(memory="4Gi", label={"zone": "eu"}))
        ctx.suspend(Needs(label={"zone": "us"}))
        return "first"

    @task
    def second() -> str:
        ran.append("second")
        return "second"

    @recipe
    def steps(run: Run) -> list[str]:
        return [run.call(first), run.call(second)]

    small = site.slot(first, second, steps, allocation=SMALL, on_handoff=told.append)
    handle = site.run(steps)
    small.drain()

    assert ran == ["first"]
    record = site.record(handle)
    assert (record["where"], record["revision"]) == ("environment", 2)
    required = Needs(memory="4Gi", label={"zone": "us"})
    assert handle.snapshot().job_needs == required
    assert set(handle.snapshot().checkpoints) == {"0:first"}
    (event,) = told
    assert (event.capability, event.published, event.demand.job) == ("recipe", True, required)
    assert [m.property for m in event.mismatches] == ["memory", "label.zone"]

    site.slot(first, second, steps, allocation=Allocation(memory="8Gi", label={"zone": "us"})).drain()
    assert handle.result(1) == ["first", "second"]
    assert ran == ["first", "second"]
    assert site.record(handle)["revision"] == 2


def test_a_recipe_that_was_never_published_accepts_a_suspension(site: Site) -> None:
    """Its first demand is that of the yield, and placement looks at it."""

    @task
    def first(ctx: TaskContext) -> None:
        ctx.suspend(Needs(memory="4Gi"))

    @recipe
    def steps(run: Run) -> str:
        run.call(first)
        return "done"

    small = site.slot(first, steps, allocation=SMALL)
    handle = site.run(steps)
    site.edit_record(handle, demand=None, revision=None)
    small.drain()
    assert site.record(handle)["where"] == "environment"

    site.slot(first, steps, allocation=BIG).drain()
    assert handle.result(1) == "done"
    assert site.record(handle)["revision"] == 1
