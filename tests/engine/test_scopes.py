"""Scopes of needs: what they ask for, of whom, and for how long."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import timedelta
from typing import Any
from urllib.parse import unquote

import pytest

from tenure import Handle, Needs, Retry, Run, TaskContext, TaskFailed, recipe, task
from tenure.engine.definitions import TaskDefinition
from tenure.engine.handoff import HandoffEvent
from tenure.errors import InvalidInput, Unconfirmed
from tenure.model.allocation import Allocation
from tenure.model.demand import Demand
from tenure.store.stored import Record
from tests.engine.handoffs import ask_for, handed_off, nothing_told, posted
from tests.engine.site import INSTANCE, OpenSite, Site
from tests.invariants import broken
from tests.proxy import LossyProxy

SMALL, MEDIUM, BIG = Allocation(memory="1Gi"), Allocation(memory="4Gi"), Allocation(memory="8Gi")
HOUR_MS = 3_600_000

#: What a handoff, or a claim that ends in one, may change in the record of its route.
MOVED = {"token", "where", "queue", "since", "ticket", "leased_queue", "avoid", "handed_off", "candidates"}


def noted(name: str, ran: list[str], **options: Any) -> TaskDefinition[..., str]:
    """A task that notes each run, and returns its name."""

    def body() -> str:
        ran.append(name)
        return name

    return task(name=name, **options)(body)


def stored(site: Site, handle: Handle) -> dict[str, Any]:
    """All bytes of one execution but its events, their count, and the records."""
    found: dict[str, Any] = {
        family: site.redis.hgetall(site.store.keys(family, INSTANCE, handle.id))
        for family in ("execution", "params", "results")
    }
    found["execution"].pop(b"events")
    found["attempts"] = site.redis.lrange(site.store.keys("attempts", INSTANCE, handle.id), 0, -1)
    return found


def unmoved(record: Record) -> Record:
    return {name: value for name, value in record.items() if name not in MOVED}


def come_due(site: Site, handle: Handle, capability: str) -> None:
    """An hour passes, and a scheduler sees it."""
    site.pass_ms(HOUR_MS)
    route = f"{INSTANCE}/{handle.id}/{capability}"
    assert site.store.duties.make_ready(site.lead(), route) == "dispatched"


def test_a_scope_that_a_slot_lacks_something_for_is_handed_off_and_comes_back(site: Site) -> None:
    """G5, G11: each task runs once, where its own needs are met, and only the first handoff publishes."""
    ran: list[str] = []
    told: list[HandoffEvent] = []
    before, inner, after = (noted(name, ran) for name in ("before", "inner", "after"))
    base = Needs(cpu=4, memory="16Gi", image="example.org/a:1", platform="linux/amd64")
    scope = Needs(memory="8Gi", image="example.org/b:1", platform="linux/arm64")

    @recipe(needs=base)
    def build(run: Run) -> list[str]:
        first = run.call(before)
        with run.needs(memory="8Gi", image="example.org/b:1", platform="linux/arm64"):
            second = run.call(inner)
        return [first, second, run.call(after)]

    here = Allocation(cpu=4, memory="16Gi", image="example.org/a:1", platform="linux/amd64")
    there = Allocation(cpu=4, memory="8Gi", image="example.org/b:1", platform="linux/arm64/v8")
    definitions = (before, inner, after, build)
    first = site.slot(*definitions, allocation=here, on_handoff=told.append)
    handle = site.run(build)
    first.drain()

    assert ran == ["before"]
    demand = Demand(recipe=base, scope=scope)
    opened = site.record(handle, "1:inner")
    assert (opened["where"], opened["demand"], opened["revision"]) == ("environment", demand.published, 1)
    (event,) = told
    assert (event.capability, event.demand, event.allocation) == ("1:inner", demand, here)
    assert [m.property for m in event.mismatches] == ["platform", "image"]
    assert event.published
    (entry,) = posted(site.store, handle)
    assert entry == event.to_data()
    assert entry["demand"] == {
        "cpu": "4",
        "memory": "8Gi",
        "platform": "linux/arm64",
        "image": "example.org/b:1",
    }
    assert entry["sources"] == {"cpu": "recipe", "memory": "scope", "platform": "scope", "image": "scope"}
    (logged,) = handed_off(handle)
    assert (logged.capability, logged.data["reason"]) == ("1:inner", "environment_required")
    assert logged.data["published"] is True

    # Asked for again by its name, and by that of its execution: the same handoff, and nothing is published.
    for name in ("1:inner", "recipe"):
        assert ask_for(first, handle, name) == "1:inner"
    assert [(e.capability, e.demand, e.published) for e in told[1:]] == [("1:inner", demand, False)] * 2
    assert [bool(e.data.get("published")) for e in handed_off(handle)] == [True, False, False]
    assert posted(site.store, handle) == [entry]
    assert unmoved(site.record(handle, "1:inner")) == unmoved(opened)

    site.slot(*definitions, allocation=there).drain()
    assert ran == ["before", "inner"]
    first.drain()

    assert handle.result(1) == ran == ["before", "inner", "after"]
    assert posted(site.store, handle) == [entry]
    assert len(told) == 3
    recipe_route = site.record(handle)
    assert (recipe_route["demand"], recipe_route["revision"]) == (Demand(recipe=base).published, 1)
    assert handle.snapshot().job_needs == Needs()
    assert handle.snapshot().attempts == []
    assert broken(site.store) == []


def test_a_slot_that_has_what_every_scope_asks_for_gives_nothing_back(site: Site) -> None:
    """G11: one claim, and what was published at the start stays as it is."""
    ran: list[str] = []
    told: list[HandoffEvent] = []
    outer, inner, after = (noted(name, ran) for name in ("outer", "inner", "after"))

    @recipe(needs=Needs(memory="1Gi"))
    def build(run: Run) -> list[str]:
        with run.needs(memory="2Gi", label={"zone": "eu"}):
            first = run.call(outer)
            with run.needs(memory="8Gi"):
                second = run.call(inner)
        return [first, second, run.call(after)]

    slot = site.slot(
        *(outer, inner, after, build),
        allocation=Allocation(memory="64Gi", label={"zone": "eu", "disk": "ssd"}),
        on_handoff=told.append,
    )
    handle = site.run(build)
    published = site.record(handle)["demand"]
    slot.drain()

    assert handle.result(1) == ran == ["outer", "inner", "after"]
    assert nothing_told(site.store, handle, told)
    kinds = [event.kind for event in handle.events()]
    assert (kinds.count("replay"), kinds.count("claimed"), kinds.count("started")) == (1, 0, 3)
    record = site.record(handle)
    assert (record["demand"], record["revision"]) == (published, 1)


def test_the_nearest_scope_wins_and_ends_with_its_block(site: Site) -> None:
    """Design 5: also where it asks for less, and also when an exception leaves it."""
    ran: list[str] = []
    near, after = noted("near", ran), noted("after", ran)

    @task
    def refused() -> None:
        ran.append("refused")
        raise ValueError("refused")

    @recipe(needs=Needs(memory="64Gi", cpu=1))
    def build(run: Run) -> None:
        with run.needs(memory="32Gi"), run.needs(memory="1Gi", label={"zone": "eu"}):
            run.call(near)
        try:
            with run.needs(memory="1Gi", platform="linux/arm64"):
                run.call(refused)
        except TaskFailed:
            run.call(after, needs=Needs(memory="2Gi"))

    definitions = (near, refused, after, build)
    large = site.slot(*definitions, allocation=Allocation(cpu=1, memory="64Gi"))
    handle = site.run(build)
    large.drain()
    asked = handle.snapshot().demand_of("0:near").effective
    assert asked == Needs(cpu=1, memory="1Gi", label={"zone": "eu"})
    site.slot(*definitions, allocation=Allocation(cpu=1, memory="1Gi", label={"zone": "eu"})).drain()
    large.drain()
    asked = handle.snapshot().demand_of("1:refused").effective
    assert asked == Needs(cpu=1, memory="1Gi", platform="linux/arm64")
    site.slot(*definitions, allocation=Allocation(cpu=1, memory="1Gi", platform="linux/arm64")).drain()
    large.drain()

    assert handle.status() == "completed"
    assert handle.snapshot().demand_of("2:after").effective == Needs(cpu=1, memory="2Gi")
    assert ran == ["near", "refused", "after"]


@pytest.mark.parametrize("asked", ["recipe", "0:inner"])
def test_recovery_asks_for_nothing_that_finished_work_needed(site: Site, asked: str) -> None:
    """G5: from the recipe's route, or from that of a finished task; the next unfinished one is checked."""
    ran: list[str] = []
    told: list[HandoffEvent] = []
    inner, last = noted("inner", ran), noted("last", ran)

    @recipe
    def build(run: Run) -> list[str]:
        with run.needs(memory="8Gi", label={"disk": "ssd"}):
            first = run.call(inner)
        with run.needs(memory="4Gi"):
            return [first, run.call(last)]

    definitions = (inner, last, build)
    small = site.slot(*definitions, allocation=SMALL, on_handoff=told.append)
    handle = site.run(build)
    small.drain()
    big = site.slot(*definitions, allocation=Allocation(memory="8Gi", label={"disk": "ssd"}))
    big.drain()
    # The only environment that the inner task could run in is gone.
    site.retire(big)
    assert site.record(handle, "0:inner")["status"] == "completed"

    assert ask_for(small, handle, asked) == "recipe"

    assert ran == ["inner"]
    assert [(e.capability, e.demand.effective) for e in told] == [
        ("0:inner", Needs(memory="8Gi", label={"disk": "ssd"})),
        ("1:last", Needs(memory="4Gi")),
    ]
    assert [entry["demand"] for entry in posted(site.store, handle)] == [
        {"memory": "8Gi", "label": {"disk": "ssd"}},
        {"memory": "4Gi"},
    ]
    site.slot(*definitions, allocation=MEDIUM).drain()
    small.drain()
    assert handle.result(1) == ran == ["inner", "last"]
    assert broken(site.store) == []


def test_a_published_scope_that_is_spent_keeps_nobody_from_the_recipe(site: Site) -> None:
    """G5: nothing can meet it, and neither dispatch, nor placement, nor admission asks for it."""
    ran: list[str] = []
    told: list[HandoffEvent] = []
    last = noted("last", ran)

    @recipe(needs=Needs(memory="1Gi"))
    def build(run: Run) -> str:
        with run.needs(memory="1Ti"):
            run.sleep("1h")
        return run.call(last)

    small = site.slot(last, build, allocation=SMALL, on_handoff=told.append)
    handle = site.run(build)
    small.drain()
    published = Demand(recipe=Needs(memory="1Gi"), scope=Needs(memory="1Ti"), at="0:sleep").published
    record = site.record(handle)
    assert (record["where"], record["demand"], record["revision"]) == ("due", published, 2)

    # It comes due when no session is left, so it is placed anew by what it needs now.
    site.retire(small)
    come_due(site, handle, "recipe")
    assert site.record(handle)["where"] == "environment"
    other = site.slot(last, build, allocation=SMALL, on_handoff=told.append)
    assert site.record(handle)["where"] == "waiting"
    other.drain()

    assert handle.result(1) == "last"
    assert ran == ["last"]
    assert nothing_told(site.store, handle, told)
    assert site.record(handle)["demand"] == published


def test_a_loop_yields_once_at_the_turn_that_needs_more(site: Site) -> None:
    """Design 5: needs may come from results; what no branch comes to is never asked for."""
    ran: list[int] = []
    told: list[HandoffEvent] = []

    @task
    def plan() -> list[str]:
        return ["1Gi", "4Gi", "1Gi"]

    @task
    def turn(n: int) -> int:
        ran.append(n)
        return n

    @recipe
    def turns(run: Run) -> list[int]:
        done, sizes = [], run.call(plan)
        for n, memory in enumerate(sizes):
            with run.needs(memory=memory):
                done.append(run.call(turn, n))
            if n > 7:
                with run.needs(gpu=64):
                    run.call(turn, -1)
        return done

    definitions = (plan, turn, turns)
    small = site.slot(*definitions, allocation=SMALL, on_handoff=told.append)
    handle = site.run(turns)
    small.drain()
    assert ran == [0]
    site.slot(*definitions, allocation=MEDIUM, on_handoff=told.append).drain()
    small.drain()

    assert handle.result(1) == ran == [0, 1, 2]
    assert [(e.capability, e.demand.effective) for e in told] == [("2:turn", Needs(memory="4Gi"))]
    assert len(posted(site.store, handle)) == len(handed_off(handle)) == 1
    assert broken(site.store) == []


def test_a_map_in_a_scope_is_handed_off_whole(site: Site) -> None:
    """G11: one event for all of its items, each of which carries the demand."""
    ran: list[int] = []
    told: list[HandoffEvent] = []

    @task
    def item(n: int) -> int:
        ran.append(n)
        return n

    @recipe
    def items(run: Run) -> list[int]:
        with run.needs(memory="4Gi"):
            return run.map(item, [0, 1, 2])

    small = site.slot(item, items, allocation=SMALL, on_handoff=told.append)
    handle = site.run(items)
    small.drain()

    demand = Demand(scope=Needs(memory="4Gi"))
    assert [(e.capability, e.demand, e.published) for e in told] == [("0:item", demand, True)]
    assert len(posted(site.store, handle)) == len(handed_off(handle)) == 1
    assert {site.record(handle, f"0:item:{n}")["demand"] for n in range(3)} == {demand.published}
    site.slot(item, items, allocation=MEDIUM).drain()
    small.drain()
    assert handle.result(1) == ran == [0, 1, 2]
    assert len(posted(site.store, handle)) == len(told) == 1
    assert broken(site.store) == []


def test_explicit_requirements_win_over_scopes_and_stay(site: Site) -> None:
    """Design 5: scopes are never written into them, nor the other way round."""
    ran: list[str] = []
    told: list[HandoffEvent] = []
    inner, after = noted("inner", ran, needs=Needs(memory="16Gi")), noted("after", ran)
    required = Needs(memory="1Gi", label={"zone": "eu"})

    @recipe(needs=Needs(memory="8Gi"))
    def build(run: Run) -> list[str]:
        with run.needs(memory="1Ti", label={"zone": "us"}, cpu=1):
            first = run.call(inner)
        return [first, run.call(after)]

    slot = site.slot(
        *(inner, after, build),
        allocation=Allocation(cpu=1, memory="1Gi", label={"zone": "eu"}),
        on_handoff=told.append,
    )
    handle = site.run(build, needs=required)
    slot.drain()

    assert handle.result(1) == ran == ["inner", "after"]
    assert told == []
    assert handle.snapshot().job_needs == required
    demand = handle.snapshot().demand_of("0:inner")
    assert demand.effective == Needs(cpu=1, memory="1Gi", label={"zone": "eu"})
    assert demand.sources() == {"cpu": "scope", "memory": "job", "label.zone": "job"}
    assert handle.snapshot().demand_of("recipe") == Demand(recipe=Needs(memory="8Gi"), job=required)


def test_the_scope_of_a_task_that_is_not_loaded_here_is_published_without_an_event(site: Site) -> None:
    """Design 5: an ordinary handoff; the task needs code, whatever else it needs."""
    ran: list[str] = []
    told: list[HandoffEvent] = []
    one, two = noted("one", ran), noted("two", ran)

    @recipe
    def build(run: Run) -> list[str]:
        first = run.call(one)
        with run.needs(memory="4Gi"):
            return [first, run.call(two)]

    small = site.slot(one, build, allocation=SMALL, on_handoff=told.append)
    handle = site.run(build)
    small.drain()

    assert handle.snapshot().demand_of("1:two") == Demand(scope=Needs(memory="4Gi"))
    assert site.record(handle)["revision"] == 1
    site.slot(two, allocation=SMALL, on_handoff=told.append).drain()
    assert ran == ["one"]
    site.slot(two, allocation=MEDIUM, on_handoff=told.append).drain()
    small.drain()
    assert handle.result(1) == ran == ["one", "two"]
    assert nothing_told(site.store, handle, told)
    assert broken(site.store) == []


def test_a_timer_publishes_the_scope_that_it_waits_in_without_an_event(site: Site) -> None:
    """Design 5: once for each change; where nothing has changed nothing is written."""
    told: list[HandoffEvent] = []

    @recipe
    def naps(run: Run) -> str:
        run.sleep("1h")
        with run.needs(memory="1Gi"):
            run.sleep("1h")
        run.sleep("1h")
        run.sleep("1h")
        return "rested"

    slot = site.slot(naps, allocation=SMALL, on_handoff=told.append)
    handle = site.run(naps)
    seen = []
    for _ in range(4):
        slot.drain()
        record = site.record(handle)
        seen.append((record["where"], record["demand"], record["revision"]))
        come_due(site, handle, "recipe")
    slot.drain()

    assert handle.result(1) == "rested"
    plain = Demand().published
    scoped = Demand(scope=Needs(memory="1Gi"), at="1:sleep").published
    assert seen == [("due", plain, 1), ("due", scoped, 2), ("due", plain, 3), ("due", plain, 3)]
    assert nothing_told(site.store, handle, told)


def test_a_retry_keeps_the_scope_of_its_task_without_an_event(site: Site) -> None:
    """G11: the next attempt goes where the demand is met that was published as the task was opened."""
    attempts: list[int] = []
    told: list[HandoffEvent] = []

    @task(retry=Retry(attempts=2, initial="1h", maximum="1h"))
    def stumble(ctx: TaskContext) -> int:
        attempts.append(ctx.attempt)
        if ctx.attempt == 1:
            raise ConnectionError("stumbled")
        return ctx.attempt

    @recipe
    def build(run: Run) -> int:
        with run.needs(memory="4Gi"):
            return run.call(stumble)

    medium = site.slot(stumble, build, allocation=MEDIUM, on_handoff=told.append)
    handle = site.run(build)
    medium.drain()
    before = site.record(handle, "0:stumble")
    assert (before["where"], before["demand"]) == ("due", Demand(scope=Needs(memory="4Gi")).published)
    site.retire(medium)
    small = site.slot(stumble, build, allocation=SMALL, on_handoff=told.append)
    come_due(site, handle, "0:stumble")
    small.drain()
    assert attempts == [1]
    assert site.record(handle, "0:stumble")["where"] == "environment"

    site.slot(stumble, build, allocation=BIG, on_handoff=told.append).drain()
    site.place_parked()
    small.drain()
    assert handle.result(1) == 2
    assert attempts == [1, 2]
    after = site.record(handle, "0:stumble")
    assert (after["demand"], after["revision"]) == (before["demand"], before["revision"])
    assert nothing_told(site.store, handle, told)


def test_a_handoff_of_what_is_published_rewrites_nothing(site: Site) -> None:
    """G11: not a byte of the execution changes but where its route lies."""
    ran: list[str] = []
    one, two = noted("one", ran), noted("two", ran)

    @recipe
    def build(run: Run) -> list[str]:
        first = run.call(one)
        with run.needs(memory="4Gi"):
            return [first, run.call(two)]

    small = site.slot(one, two, build, allocation=SMALL)
    handle = site.run(build)
    small.drain()
    before, kept = stored(site, handle), handle.snapshot().records
    ask_for(small, handle, "1:two")

    assert stored(site, handle) == before
    records = handle.snapshot().records
    assert records.keys() == kept.keys()
    assert {name: record for name, record in records.items() if name != "1:two"} == {
        name: record for name, record in kept.items() if name != "1:two"
    }
    assert unmoved(records["1:two"]) == unmoved(kept["1:two"])
    assert records["1:two"]["token"] > kept["1:two"].get("token", 0)
    assert broken(site.store) == []


@pytest.fixture
def proxy(url: str) -> Iterator[LossyProxy]:
    with LossyProxy(unquote(url.removeprefix("unix://"))) as proxy:
        yield proxy


def test_a_handoff_whose_reply_is_lost_is_reported_by_nobody_and_stands(
    open_site: OpenSite, site: Site, proxy: LossyProxy
) -> None:
    """G16: this slot cannot know, so it stops; the store has the route, its demand and the one event."""
    ran: list[str] = []
    told: list[HandoffEvent] = []
    inner, after = noted("inner", ran), noted("after", ran)

    @recipe
    def other(run: Run) -> str:
        return run.call(after)

    @recipe
    def build(run: Run) -> list[str]:
        if not proxy.lost:
            proxy.lose_replies(1000)
        try:
            with run.needs(memory="4Gi"):
                first = run.call(inner)
        except Exception:  # noqa: BLE001  # as careless code does
            first = "swallowed"
        finally:
            # From here on a slot that carries on as the owner could.
            proxy.lose_replies(0)
        return [first, run.call(after)]

    # The server knows all scripts by now, so that what is lost is the reply of one that has run.
    earlier = site.run(other)
    gone = site.slot(after, other)
    gone.drain()
    assert earlier.result(1) == "after"
    site.retire(gone)
    ran.clear()
    remote = open_site(proxy.url, resend=timedelta(seconds=0.3))
    small = remote.slot(inner, after, build, other, allocation=SMALL, on_handoff=told.append)
    handle, others = site.run(build, priority=9), [site.run(other), site.run(other)]
    with pytest.raises(Unconfirmed):
        small.drain()

    assert proxy.lost > 0
    assert (ran, told) == ([], [])
    (entry,) = posted(site.store, handle)
    assert (entry["capability"], entry["demand"]) == ("0:inner", {"memory": "4Gi"})
    site.bury(small, charge=None)
    medium = site.slot(inner, after, build, other, allocation=MEDIUM, on_handoff=told.append)
    assert ask_for(medium, handle, "0:inner") == "0:inner"
    site.slot(inner, after, build, other, allocation=SMALL, on_handoff=told.append).drain()

    assert handle.result(1) == ["inner", "after"]
    assert [one.result(1) for one in others] == ["after", "after"]
    assert sorted(ran) == ["after", "after", "after", "inner"]
    assert told == []
    assert posted(site.store, handle) == [entry]
    assert handle.snapshot().attempts == []
    assert broken(site.store) == []


def test_a_scope_outside_a_with_is_refused_at_the_next_call(site: Site) -> None:
    """It would do nothing, and the task would run anywhere."""

    @task
    def one() -> str:
        return "one"

    @recipe
    def careless(run: Run) -> str:
        run.needs(memory="4Gi")
        return run.call(one)

    slot = site.slot(one, careless)
    handle = site.run(careless)
    slot.drain()
    assert handle.status() == "failed"
    assert "run.needs(memory=4Gi) does nothing by itself" in (handle.snapshot().error or "")


def test_a_scope_is_given_as_needs_or_by_properties_and_ends_also_by_an_exception(site: Site) -> None:
    @task
    def one() -> str:
        return "one"

    @recipe
    def scoped(run: Run) -> list[str]:
        done = []
        try:
            with run.needs(Needs(cpu=1), memory="1Gi"):
                done.append(run.call(one))
                raise ValueError("left")  # noqa: TRY301  # what is tested
        except ValueError:
            done.append(run.call(one))
        with run.needs():
            done.append(run.call(one))
        return done

    slot = site.slot(one, scoped, allocation=Allocation(cpu=2, memory="1Gi"))
    handle = site.run(scoped)
    slot.drain()
    assert handle.result(1) == ["one"] * 3
    assert [handle.snapshot().demand_of(f"{n}:one").text for n in range(3)] == ["cpu=1,memory=1Gi", "", ""]


@pytest.mark.parametrize("wrong", [{"memory": "1Gi"}, "memory=1Gi", 5, Allocation(memory="1Gi")])
def test_needs_of_another_kind_are_refused_where_they_are_declared(site: Site, wrong: Any) -> None:
    with pytest.raises(InvalidInput, match=r"task one: needs: .* is no Needs"):

        @task(needs=wrong)
        def one() -> None: ...

    with pytest.raises(InvalidInput, match=r"recipe plain: needs: .* is no Needs"):

        @recipe(needs=wrong)
        def plain(run: Run) -> None: ...

    @recipe
    def fine(run: Run) -> None: ...

    with pytest.raises(InvalidInput, match=r"needs: .* is no Needs"):
        site.client.start(fine, needs=wrong)
    assert site.client.list() == []
