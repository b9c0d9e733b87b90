"""`ctx.suspend`: a task requires another environment from its end on."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack
from datetime import timedelta
from typing import Any
from urllib.parse import unquote

import pytest

from tenure import Needs, Retry, Run, TaskContext, TaskFailed, recipe, task
from tenure.engine import steps as engine_steps
from tenure.engine.definitions import TaskDefinition
from tenure.engine.handoff import HandoffEvent
from tenure.engine.signals import Stop
from tenure.errors import InvalidInput, StoreUnreachable, Unconfirmed
from tenure.model.allocation import Allocation
from tenure.model.demand import Demand
from tests.engine.handoffs import ask_for, handed_off, nothing_told, posted
from tests.engine.site import OpenSite, Site
from tests.invariants import broken
from tests.proxy import LossyProxy

SMALL, MEDIUM, BIG = Allocation(memory="1Gi"), Allocation(memory="4Gi"), Allocation(memory="8Gi")
ZONED = Allocation(memory="8Gi", label={"zone": "eu"})
HOUR_MS = 3_600_000


class Suspending:
    """A task that suspends for what is `required` and notes each run, and a plain one that follows."""

    def __init__(self, required: Needs, **options: Any) -> None:
        self.ran: list[str] = []
        self.told: list[HandoffEvent] = []

        @task(**options)
        def first(ctx: TaskContext) -> str:
            self.ran.append("first")
            ctx.suspend(required)
            return "first"

        @task
        def second() -> str:
            self.ran.append("second")
            return "second"

        self.first, self.second = first, second


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


def test_a_suspension_yields_also_where_the_execution_could_go_on(site: Site) -> None:
    """Design 5: a full yield under a lease of its own, told of as one that lacks nothing."""
    work = Suspending(Needs(memory="2Gi"))

    @recipe
    def steps(run: Run) -> list[str]:
        return [run.call(work.first), run.call(work.second)]

    slot = site.slot(work.first, work.second, steps, allocation=BIG, on_handoff=work.told.append)
    handle = site.run(steps)
    slot.drain()

    assert handle.result(1) == work.ran == ["first", "second"]
    (event,) = work.told
    assert (event.mismatches, event.published, event.demand) == ((), True, Demand(job=Needs(memory="2Gi")))
    assert posted(site.store, handle) == [event.to_data()]
    assert [(e.capability, e.data["mismatches"]) for e in handed_off(handle)] == [("recipe", [])]
    assert [e.data["required_by"] for e in handed_off(handle)] == [["0:first"]]
    # The second task ran under a lease that came after the yield.
    leases = [(e.kind, e.data["token"]) for e in handle.events() if "token" in e.data]
    assert [kind for kind, _ in leases] == ["replay", "started", "replay", "started"]
    tokens = [token for _, token in leases]
    assert tokens == sorted(set(tokens))
    assert broken(site.store) == []


def test_replay_skips_what_was_accepted_and_brings_no_older_value_back(site: Site) -> None:
    """G5, G11: eight gibibytes, later four; every later replay keeps four, whatever was recorded before."""
    ran: list[str] = []
    told: list[HandoffEvent] = []

    @task
    def asks(memory: str, ctx: TaskContext) -> str:
        ran.append(memory)
        ctx.suspend(Needs(memory=memory))
        return memory

    @task
    def item(n: int) -> int:
        ran.append(f"item {n}")
        return n

    @recipe
    def steps(run: Run) -> list[Any]:
        asked = [run.call(asks, "8Gi"), run.call(asks, "4Gi")]
        run.sleep("1h")
        return [*asked, *run.map(item, [0, 1])]

    small = site.slot(asks, item, steps, allocation=SMALL, on_handoff=told.append)
    handle = site.run(steps)
    small.drain()
    big = site.slot(asks, item, steps, allocation=BIG, on_handoff=told.append)
    big.drain()
    site.retire(big)
    assert handle.snapshot().job_needs == Needs(memory="4Gi")
    checkpoints = handle.snapshot().checkpoints
    assert set(checkpoints) == {"0:asks", "1:asks"}
    published = site.record(handle)["demand"], site.record(handle)["revision"]
    assert published == (Demand(job=Needs(memory="4Gi")).published, 3)

    medium = site.slot(asks, item, steps, allocation=MEDIUM, on_handoff=told.append)
    site.pass_ms(HOUR_MS)
    site.store.duties.make_ready(site.lead(), f"default/{handle.id}/recipe")
    site.place_parked()
    medium.drain()

    assert handle.result(1) == ["8Gi", "4Gi", 0, 1]
    assert ran == ["8Gi", "4Gi", "item 0", "item 1"]
    assert [event.demand.job for event in told] == [Needs(memory="8Gi"), Needs(memory="4Gi")]
    assert len(posted(site.store, handle)) == len(handed_off(handle)) == 2
    assert handle.snapshot().job_needs == Needs(memory="4Gi")
    assert handle.snapshot().checkpoints == checkpoints
    assert (site.record(handle)["demand"], site.record(handle)["revision"]) == published
    assert site.kinds(handle).count("replay") > 4
    assert broken(site.store) == []


def test_suspensions_of_one_task_add_up_by_name(site: Site) -> None:
    """Design 5: resources and labels too; the later call wins where both name the same."""
    told: list[HandoffEvent] = []

    @task
    def first(ctx: TaskContext) -> None:
        ctx.suspend(Needs(memory="8Gi", resources={"fpga": 1}, label={"zone": "eu", "disk": "ssd"}))
        ctx.suspend(Needs(resources={"tpu": 2}, label={"zone": "us"}))
        ctx.suspend(Needs(memory="2Gi"))

    @recipe
    def steps(run: Run) -> str:
        run.call(first)
        return "done"

    slot = site.slot(first, steps, allocation=SMALL, on_handoff=told.append)
    handle = site.run(steps)
    slot.drain()

    required = Needs(memory="2Gi", resources={"fpga": 1, "tpu": 2}, label={"zone": "us", "disk": "ssd"})
    assert handle.snapshot().job_needs == required
    assert [event.demand.job for event in told] == [required]


def test_suspensions_in_a_map_are_accepted_once_after_it_in_the_order_of_items(site: Site) -> None:
    """G11: in whatever order the items have ended."""
    ran: list[int] = []
    told: list[HandoffEvent] = []

    @task
    def item(n: int, ctx: TaskContext) -> int:
        ran.append(n)
        if n != 1:
            ctx.suspend(Needs(memory=f"{n + 1}Gi", label={"from": str(n), f"item{n}": "yes"}))
        return n

    @recipe
    def items(run: Run) -> list[int]:
        return run.map(item, range(4))

    slot = site.slot(item, items, allocation=BIG, on_handoff=told.append)
    handle = site.run(items)
    ask_for(slot, handle, "recipe")
    for n in (3, 1, 2, 0):
        ask_for(slot, handle, f"0:item:{n}")
    assert ran == [3, 1, 2, 0]
    assert nothing_told(site.store, handle, told)
    assert handle.snapshot().job_needs == Needs()
    slot.drain()

    labels = {"from": "3", "item0": "yes", "item2": "yes", "item3": "yes"}
    assert handle.snapshot().job_needs == Needs(memory="4Gi", label=labels)
    assert set(handle.snapshot().checkpoints) == {"0:item:0", "0:item:2", "0:item:3"}
    assert len(told) == len(posted(site.store, handle)) == len(handed_off(handle)) == 1
    assert site.record(handle)["revision"] == 2
    site.slot(item, items, allocation=Allocation(memory="4Gi", label=labels)).drain()
    assert handle.result(1) == [0, 1, 2, 3]
    assert sorted(ran) == [0, 1, 2, 3]
    assert broken(site.store) == []


@pytest.mark.parametrize("delay", ["1ms", "1h"])
def test_what_a_failed_attempt_required_is_dropped(site: Site, delay: str) -> None:
    """Design 5: also when the next attempt succeeds without it, in place or later."""
    attempts: list[int] = []
    told: list[HandoffEvent] = []

    @task(retry=Retry(attempts=2, initial=delay, maximum="1h"))
    def stumble(ctx: TaskContext) -> int:
        attempts.append(ctx.attempt)
        if ctx.attempt == 1:
            ctx.suspend(Needs(memory="1Ti"))
            raise ConnectionError("stumbled")
        return ctx.attempt

    @recipe
    def steps(run: Run) -> int:
        return run.call(stumble)

    slot = site.slot(stumble, steps, allocation=SMALL, on_handoff=told.append)
    handle = site.run(steps)
    slot.drain()
    if delay == "1h":
        site.pass_ms(HOUR_MS)
        site.store.duties.make_ready(site.lead(), f"default/{handle.id}/0:stumble")
        slot.drain()

    assert handle.result(1) == 2
    assert attempts == [1, 2]
    assert nothing_told(site.store, handle, told)
    assert (handle.snapshot().job_needs, handle.snapshot().checkpoints) == (Needs(), {})
    assert site.record(handle)["revision"] == 1


@pytest.mark.parametrize("elsewhere", [False, True])
def test_a_failed_task_requires_nothing(site: Site, *, elsewhere: bool) -> None:
    """Design 5: also when the recipe catches its failure."""
    told: list[HandoffEvent] = []

    @task(needs=Needs(memory="8Gi") if elsewhere else None)
    def fails(ctx: TaskContext) -> None:
        ctx.suspend(Needs(memory="1Ti"))
        raise ValueError("no")

    @recipe
    def steps(run: Run) -> str:
        try:
            run.call(fails)
        except TaskFailed as failed:
            return failed.message
        return "unreachable"

    small = site.slot(fails, steps, allocation=SMALL)
    handle = site.run(steps)
    small.drain()
    if elsewhere:
        site.slot(fails, steps, allocation=BIG, on_handoff=told.append).drain()
        small.drain()

    assert handle.result(1) == "ValueError: no"
    assert told == []
    assert len(posted(site.store, handle)) == (1 if elsewhere else 0)
    assert (handle.snapshot().job_needs, handle.snapshot().checkpoints) == (Needs(), {})


def kinds_of_tasks(ran: list[str]) -> dict[str, TaskDefinition[..., Any]]:
    """Tasks of every kind, in a chain or on a route of their own; all require the same."""

    def body(ctx: TaskContext) -> str:
        ran.append("first")
        ctx.suspend(Needs(label={"zone": "eu"}))
        return "first"

    async def later(ctx: TaskContext) -> Any:
        return body(ctx)

    big = Needs(memory="8Gi")
    return {
        "plain": task(name="first")(body),
        "plain elsewhere": task(name="first", needs=big)(body),
        "once": task(name="first", effects="once")(body),
        "once elsewhere": task(name="first", effects="once", needs=big)(body),
        "async": task(name="first")(later),
        "async elsewhere": task(name="first", needs=big)(later),
        "async once": task(name="first", effects="once")(later),
    }


@pytest.mark.parametrize("kind", list(kinds_of_tasks([])))
def test_any_task_may_suspend_in_a_chain_or_on_a_route_of_its_own(site: Site, kind: str) -> None:
    """G5, G11: its result is durable before the yield, and it does not run again."""
    ran: list[str] = []
    told: list[HandoffEvent] = []
    first = kinds_of_tasks(ran)[kind]
    second = Suspending(Needs(cpu=1)).second

    @recipe
    def steps(run: Run) -> list[str]:
        return [run.call(first), run.call(second)]

    small = site.slot(first, second, steps, allocation=SMALL, on_handoff=told.append)
    handle = site.run(steps)
    small.drain()
    openings = 0
    if kind.endswith("elsewhere"):
        openings = 1
        site.slot(first, second, steps, allocation=BIG).drain()
        assert site.record(handle, "0:first")["status"] == "completed"
        # The recipe has not replayed yet, so nothing has been required.
        assert handle.snapshot().job_needs == Needs()
        assert len(posted(site.store, handle)) == 1
        small.drain()

    assert site.record(handle, "0:first")["status"] == "completed"
    assert handle.snapshot().job_needs == Needs(label={"zone": "eu"})
    assert [(e.capability, e.published) for e in told[openings:]] == [("recipe", True)]
    assert len(posted(site.store, handle)) == len(handed_off(handle)) == 1 + openings
    site.slot(first, second, steps, allocation=ZONED).drain()
    assert handle.result(1) == ["first", "second"]
    assert ran == ["first"]
    assert broken(site.store) == []


def test_a_suspension_is_laid_over_what_was_required_at_the_start(site: Site) -> None:
    """Design 5: explicit requirements win over scopes, and what a suspension does not name remains."""
    work = Suspending(Needs(memory="4Gi"))

    @recipe(needs=Needs(memory="16Gi"))
    def steps(run: Run) -> list[str]:
        with run.needs(memory="1Ti", cpu=1):
            return [run.call(work.first), run.call(work.second)]

    definitions = (work.first, work.second, steps)
    small = site.slot(
        *definitions,
        allocation=Allocation(cpu=1, memory="1Gi", label={"zone": "eu"}),
        on_handoff=work.told.append,
    )
    handle = site.run(steps, needs=Needs(memory="1Gi", label={"zone": "eu"}))
    small.drain()
    required = Needs(memory="4Gi", label={"zone": "eu"})
    assert handle.snapshot().job_needs == required
    assert work.ran == ["first"]
    (event,) = work.told
    assert event.demand == Demand(recipe=Needs(memory="16Gi"), job=required)
    site.slot(
        *definitions,
        allocation=Allocation(cpu=1, memory="4Gi", label={"zone": "eu"}),
        on_handoff=work.told.append,
    ).drain()

    assert handle.result(1) == work.ran == ["first", "second"]
    assert handle.snapshot().job_needs == required
    assert handle.snapshot().demand_of("1:second") == Demand(
        recipe=Needs(memory="16Gi"), scope=Needs(cpu=1, memory="1Ti"), job=required
    )
    assert len(work.told) == len(posted(site.store, handle)) == 1


def test_another_directive_at_a_checkpoint_stops_the_execution_by_name(site: Site) -> None:
    """G4, G17: another one was accepted there; nothing is lost, and with the right one it goes on."""
    work = Suspending(Needs(memory="8Gi"))

    @recipe
    def steps(run: Run) -> list[str]:
        try:
            return [run.call(work.first), run.call(work.second)]
        except Exception:  # noqa: BLE001  # as careless code does
            return ["went on"]

    definitions = (work.first, work.second, steps)
    small = site.slot(*definitions, allocation=SMALL)
    handle = site.run(steps)
    small.drain()
    kept = site.record(handle, "0:first")["directive"]
    before = handle.snapshot()
    site.edit_record(handle, "0:first", directive='{"memory":"2Gi"}')
    big = site.slot(*definitions, allocation=BIG, on_handoff=work.told.append)
    big.drain()

    explanation = handle.explain()
    assert explanation.reason == "blocked"
    assert f"execution {handle.id}: 0:first now suspends for" in explanation.summary
    assert '{"memory":"2Gi"}' in explanation.summary
    after = handle.snapshot()
    assert (after.job_needs, after.checkpoints) == (before.job_needs, before.checkpoints)
    assert work.told == []
    assert broken(site.store) == []

    site.edit_record(handle, "0:first", directive=kept)
    site.put_back(handle)
    big.drain()
    assert handle.result(1) == work.ran == ["first", "second"]


def test_a_slot_that_dies_before_the_yield_leaves_it_to_the_next_replay(site: Site) -> None:
    """G5, G11: the result lies there with its directive; one publication follows, under a fresh lease."""
    work = Suspending(Needs(label={"zone": "eu"}), needs=Needs(memory="8Gi"))
    replays: list[str] = []

    @recipe
    def steps(run: Run) -> list[str]:
        replays.append("replay")
        if len(replays) in (2, 3):
            raise Stop(Unconfirmed("the slot vanished"))
        return [run.call(work.first), run.call(work.second)]

    definitions = (work.first, work.second, steps)
    small = site.slot(*definitions, allocation=SMALL)
    handle = site.run(steps)
    small.drain()
    site.slot(*definitions, allocation=BIG).drain()
    for slot in (small, site.slot(*definitions, allocation=SMALL)):
        with pytest.raises(Unconfirmed):
            slot.drain()
        site.bury(slot, charge="recipe")
        record = site.record(handle, "0:first")
        assert (record["status"], record["directive"]) == ("completed", '{"label":{"zone":"eu"}}')
        assert (handle.snapshot().job_needs, handle.snapshot().checkpoints) == (Needs(), {})
        assert len(posted(site.store, handle)) == 1
    lost = handle.snapshot().records["recipe"]["token"]

    site.slot(*definitions, allocation=SMALL, on_handoff=work.told.append).drain()

    assert replays == ["replay"] * 4
    assert work.ran == ["first"]
    assert [event.demand.job for event in work.told] == [Needs(label={"zone": "eu"})]
    assert len(posted(site.store, handle)) == 2
    record = site.record(handle)
    assert (record["revision"], record["crashes"]) == (2, 2)
    assert record["token"] > lost
    site.slot(*definitions, allocation=ZONED).drain()
    assert handle.result(1) == work.ran == ["first", "second"]
    assert len(posted(site.store, handle)) == 2
    assert broken(site.store) == []


@pytest.fixture
def proxy(url: str) -> Iterator[LossyProxy]:
    with LossyProxy(unquote(url.removeprefix("unix://"))) as proxy:
        yield proxy


def test_a_suspension_that_never_reached_the_store_is_made_again(
    open_site: OpenSite, site: Site, proxy: LossyProxy
) -> None:
    """G16: result and requirement are recorded in one step, so both are missing, or neither."""
    ran: list[int] = []
    told: list[HandoffEvent] = []

    with ExitStack() as outage:

        @task
        def first(ctx: TaskContext) -> int:
            ran.append(ctx.attempt)
            ctx.suspend(Needs(memory="4Gi"))
            if ctx.attempt == 1:
                outage.enter_context(proxy.down())
            return ctx.attempt

        @recipe
        def steps(run: Run) -> int:
            return run.call(first)

        remote = open_site(proxy.url, resend=timedelta(seconds=0.3))
        small = remote.slot(first, steps, allocation=SMALL, on_handoff=told.append)
        handle = site.run(steps)
        with pytest.raises((StoreUnreachable, Unconfirmed)):
            small.drain()

    assert nothing_told(site.store, handle, told)
    assert handle.snapshot().job_needs == Needs()
    assert site.record(handle, "0:first").get("directive") is None
    site.bury(small)
    site.slot(first, steps, allocation=SMALL, on_handoff=told.append).drain()
    assert len(told) == len(posted(site.store, handle)) == 1
    assert site.record(handle)["revision"] == 2
    site.slot(first, steps, allocation=MEDIUM, on_handoff=told.append).drain()

    assert handle.result(1) == 2
    assert ran == [1, 2]
    assert len(posted(site.store, handle)) == 1
    assert broken(site.store) == []


def test_a_yield_whose_reply_is_lost_is_reported_by_nobody_and_stands(
    open_site: OpenSite, site: Site, proxy: LossyProxy, monkeypatch: pytest.MonkeyPatch
) -> None:
    """G16: no task follows in this slot; the next that fits finds everything accepted and told of."""
    # However busy the machine is, it is the yield that records the result.
    monkeypatch.setattr(engine_steps, "IN_HAND_SECONDS", 3600.0)
    ran: list[str] = []
    told: list[HandoffEvent] = []

    @task
    def first(ctx: TaskContext) -> str:
        ran.append("first")
        ctx.suspend(Needs(memory="4Gi"))
        proxy.lose_replies(1000)
        return "first"

    @task
    def second() -> str:
        ran.append("second")
        return "second"

    @recipe
    def other(run: Run) -> str:
        return run.call(second)

    @recipe
    def steps(run: Run) -> list[str]:
        results = []
        for one in (first, second):
            try:
                results.append(run.call(one))
            except Exception:  # noqa: BLE001  # as careless code does
                results.append("swallowed")
            finally:
                # From here on a slot that carries on as the owner could.
                proxy.lose_replies(0)
        return results

    remote = open_site(proxy.url, resend=timedelta(seconds=0.3))
    small = remote.slot(first, second, steps, other, allocation=SMALL, on_handoff=told.append)
    handle, others = site.run(steps, priority=9), [site.run(other), site.run(other)]
    with pytest.raises(Unconfirmed):
        small.drain()

    assert proxy.lost > 0
    assert (ran, told) == (["first"], [])
    assert handle.snapshot().job_needs == Needs(memory="4Gi")
    assert site.record(handle, "0:first")["status"] == "completed"
    (entry,) = posted(site.store, handle)
    assert site.record(handle)["where"] == "environment"
    site.bury(small, charge=None)
    site.slot(first, second, steps, other, allocation=MEDIUM, on_handoff=told.append).drain()

    assert handle.result(1) == ran == ["first", "second"]
    assert told == []
    assert posted(site.store, handle) == [entry]
    assert site.record(handle)["revision"] == 2
    site.slot(first, second, steps, other, allocation=SMALL).drain()
    assert [one.result(1) for one in others] == ["second", "second"]
    assert broken(site.store) == []


def test_a_yield_under_a_stale_revision_accepts_nothing_and_loses_nothing(site: Site) -> None:
    """G11: what somebody else has published meanwhile stays, and the next replay lays this over it."""
    work = Suspending(Needs(memory="4Gi"))
    published = Demand(recipe=Needs(cpu=1)).published
    seen: list[tuple[Needs, int, int]] = []

    @task
    def overtaken(ctx: TaskContext) -> None:
        work.ran.append("overtaken")
        ctx.suspend(Needs(memory="4Gi"))
        site.edit_record(handle, demand=published, revision=7)

    @recipe
    def steps(run: Run) -> str:
        seen.append(
            (handle.snapshot().job_needs, site.record(handle)["revision"], len(posted(site.store, handle)))
        )
        run.call(overtaken)
        return run.call(work.second)

    slot = site.slot(
        *(overtaken, work.second, steps),
        allocation=Allocation(cpu=2, memory="8Gi"),
        on_handoff=work.told.append,
    )
    handle = site.run(steps)
    slot.drain()

    assert handle.result(1) == "second"
    assert work.ran == ["overtaken", "second"]
    required = Needs(memory="4Gi")
    assert seen == [(Needs(), 1, 0), (Needs(), 7, 0), (required, 8, 1)]
    (event,) = work.told
    assert event.demand == Demand(recipe=Needs(cpu=1), job=required)
    assert site.record(handle)["demand"] == event.demand.published
    assert broken(site.store) == []


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


def test_items_that_completed_are_heard_though_another_item_of_their_map_failed(site: Site) -> None:
    """Their results are durable, and what a recipe does after it caught the failure depends on them."""

    @task
    def item(n: int, ctx: TaskContext) -> int:
        if n == 2:
            raise ValueError("two")
        ctx.suspend(Needs(memory=f"{2 + n}Gi"))
        return n

    @recipe
    def steps(run: Run) -> str:
        try:
            run.map(item, [0, 1, 2])
        except TaskFailed as error:
            return error.capability
        return "none failed"

    small = site.slot(item, steps, allocation=SMALL)
    handle = site.run(steps)
    small.drain()
    assert handle.snapshot().job_needs == Needs(memory="3Gi")
    assert set(handle.snapshot().checkpoints) == {"0:item:0", "0:item:1"}

    site.slot(item, steps, allocation=BIG).drain()
    assert handle.result(1) == "0:item:2"


def test_a_suspension_for_what_is_required_already_is_accepted_under_the_next_revision(site: Site) -> None:
    """Its checkpoint is new, although the demand is the same."""

    @task
    def ask(ctx: TaskContext) -> None:
        ctx.suspend(Needs(memory="4Gi"))

    @recipe
    def steps(run: Run) -> str:
        run.call(ask)
        run.call(ask)
        return "done"

    site.slot(ask, steps, allocation=BIG).drain()
    handle = site.run(steps)
    site.slot(ask, steps, allocation=BIG).drain()
    assert handle.result(1) == "done"
    assert site.record(handle)["revision"] == 3
    assert set(handle.snapshot().checkpoints) == {"0:ask", "1:ask"}


def test_what_is_asked_for_after_the_task_has_ended_is_refused(site: Site) -> None:
    """A requirement that nobody hears of would be lost silently."""
    kept: list[TaskContext] = []
    errors: list[str] = []

    @task
    def keep(ctx: TaskContext) -> None:
        kept.append(ctx)

    @task
    def late() -> None:
        try:
            kept[0].suspend(memory="4Gi")
        except InvalidInput as error:
            errors.append(str(error))

    @recipe
    def steps(run: Run) -> str:
        run.call(keep)
        run.call(late)
        return "done"

    slot = site.slot(keep, late, steps)
    handle = site.run(steps)
    slot.drain()
    assert handle.result(1) == "done"
    (said,) = errors
    assert f"execution {handle.id}: 0:keep has ended" in said
    assert handle.snapshot().job_needs.is_empty


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"needs": {"memory": "4Gi"}}, "is no Needs"),
        ({"ram": "4Gi"}, "'ram' is no property of needs"),
        ({"memory": "lots"}, "'lots' is no quantity"),
        ({}, "asks for nothing"),
    ],
)
def test_a_suspension_that_cannot_be_read_is_an_error_of_its_task(
    site: Site, given: dict[str, Any], said: str
) -> None:
    @task
    def ask(ctx: TaskContext) -> None:
        ctx.suspend(*([given.pop("needs")] if "needs" in given else []), **given)

    @recipe
    def steps(run: Run) -> None:
        run.call(ask)

    slot = site.slot(ask, steps)
    handle = site.run(steps)
    slot.drain()
    assert handle.status() == "failed"
    assert said in (handle.snapshot().error or "")
