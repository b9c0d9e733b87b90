"""What a slot does with a lease that it lacks something for, and with work that it asks for by name."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import timedelta
from typing import Any
from urllib.parse import unquote

import msgpack
import pytest
import redis

from tenure import Client, Needs, Run, TaskContext, recipe, task
from tenure.engine.admission import GuardedTask
from tenure.engine.definitions import Definitions, RecipeDefinition, TaskDefinition
from tenure.engine.driver import Driver
from tenure.engine.handoff import HandoffEvent
from tenure.engine.presence import Phase
from tenure.engine.workset import Workset
from tenure.errors import Malformed, StoreUnreachable, Unconfirmed, UnguardedTask
from tenure.model.allocation import Allocation, Image
from tenure.model.demand import Demand
from tenure.model.fit import Mismatch
from tenure.model.status import SessionState
from tenure.settings import Settings
from tenure.store.leases import SlotLeases
from tenure.wiring import open_store
from tenure_workers.admission import Admission
from tests.engine.handoffs import leases_of, start_in
from tests.engine.site import INSTANCE, Site, Switch
from tests.harness import working_slot
from tests.invariants import broken
from tests.proxy import LossyProxy

SMALL, BIG = Allocation(memory="1Gi"), Allocation(memory="8Gi")
NEEDS = Needs(memory="4Gi")
DIGEST = "sha256:" + "0123456789abcdef" * 4
OTHER_DIGEST = "sha256:" + "fedcba9876543210" * 4

ROUTE = "default/e/recipe"

Bodies = dict[str, TaskDefinition[..., str]]


@pytest.fixture
def site(url: str, redis_client: redis.Redis, namespace: str) -> Iterator[Site]:
    """A namespace whose slots work in this process."""
    with open_store(url, namespace=namespace, settings=Settings(), test_clock=True) as store:
        yield Site(store, redis_client)


@pytest.fixture
def ran() -> list[str]:
    """The tasks whose code has run, in order."""
    return []


@pytest.fixture
def tasks(ran: list[str]) -> Bodies:
    """`light` needs nothing, `heavy` 4Gi; `last` is like `light`."""

    def noting(name: str, needs: Needs | None = None) -> TaskDefinition[..., str]:
        def body() -> str:
            ran.append(name)
            return name

        return task(name=name, needs=needs)(body)

    return {"light": noting("light"), "heavy": noting("heavy", NEEDS), "last": noting("last")}


@pytest.fixture
def mixed(tasks: Bodies) -> RecipeDefinition[list[str]]:
    """Light, heavy and light again."""

    @recipe
    def mixed(run: Run) -> list[str]:
        return [run.call(tasks["light"]), run.call(tasks["heavy"]), run.call(tasks["last"])]

    return mixed


@recipe(needs=NEEDS)
def demanding(run: Run) -> str:
    return "done"


def unplaced_slot(
    site: Site, *definitions: TaskDefinition[..., Any] | RecipeDefinition[Any], allocation: Allocation
) -> Driver:
    """A slot to whose registration no placement has answered yet."""
    return working_slot(
        site.store, Definitions.of(definitions), allocation=allocation, session="late", life="late"
    )


def over(slot: Driver, admission: Admission, workset: Workset) -> Driver:
    """The driver of a slot life with another admission and other definitions."""
    bench = slot._bench
    return Driver(
        leases=bench.leases,
        executions=bench.executions,
        placement=bench.placement,
        workset=workset,
        presence=bench.presence,
        admission=admission,
        settings=bench.settings,
    )


def outbox(site: Site) -> list[dict[str, Any]]:
    """The environment events that wait for delivery."""
    stored: Any = site.redis.hgetall(site.store.keys("outbox_event"))
    assert site.redis.zcard(site.store.keys("outbox")) == len(stored)
    return [msgpack.unpackb(packed) for packed in stored.values()]


def take_over(site: Site, slot: Driver) -> None:
    """What schedulers do after the host of a slot has died."""
    leader = site.lead()
    site.pass_ms(int(site.store.settings.lease.total_seconds() * 1000) + 1)
    leader = site.lead()
    site.retire(slot)
    assert site.store.duties.take_over(leader, ROUTE, cause="lapsed") == "taken"


# -- the adapter by hand -------------------------------------------------------------------------------------


def test_a_lease_that_fits_is_accepted_as_it_is(site: Site) -> None:
    """G2: the token that was granted is the one that commits, and nothing of it is told."""
    told: list[HandoffEvent] = []
    slot = site.slot(demanding, allocation=BIG, on_handoff=told.append)
    start_in(site, [slot], demanding)
    lease = leases_of(slot).claim()
    assert lease is not None
    assert slot._bench.admission.accept(lease)

    record = site.record(site.client.get("e"))
    assert (record["where"], record["token"], record["session"]) == (
        "leased",
        lease.token,
        leases_of(slot).holder.session,
    )
    assert told == []


def test_a_lease_that_lacks_something_is_given_back_as_it_was(site: Site) -> None:
    """G11: same route, coordinates, demand and revision. Its keepalive ends before `on_handoff` is told."""
    presence = Switch()
    seen: list[tuple[HandoffEvent, Phase, int, str]] = []

    def tell(event: HandoffEvent) -> None:
        phase, shown = presence.shown[-1]
        seen.append((event, phase, len(shown), site.record(handle)["where"]))

    small = site.slot(demanding, allocation=SMALL, presence=presence, on_handoff=tell)
    big = site.slot(demanding, allocation=BIG)
    handle = start_in(site, [small, big], demanding)
    before = site.record(handle)
    lease = leases_of(small).claim()
    assert lease is not None
    presence.show(Phase.RECIPE, [(lease.route, lease.token, False)])

    assert not small._bench.admission.accept(lease)

    after = site.record(handle)
    kept = ("demand", "revision", "attempt", "failures", "crashes", "ordinal", "task")
    assert {name: after.get(name) for name in kept} == {name: before.get(name) for name in kept}
    assert after["token"] == lease.token
    ((event, phase, held, where),) = seen
    assert (phase, held, where) == (Phase.IDLE, 0, "waiting")
    assert (event.route, event.demand, event.allocation) == (ROUTE, Demand(recipe=NEEDS), SMALL)
    assert [(m.property, m.required, m.actual) for m in event.mismatches] == [("memory", "4Gi", "1Gi")]
    assert not event.published
    assert outbox(site) == []
    # The token is released: it changes nothing any more, and whoever is next has a greater one.
    assert leases_of(small).claim() is None
    following = leases_of(big).claim()
    assert following is not None
    assert following.token > lease.token


@pytest.mark.parametrize(
    ("needs", "allocation", "fits"),
    [
        (Needs(), Allocation(), True),
        (Needs(memory="1Mi"), Allocation(), False),
        (Needs(memory="1Mi"), Allocation(cpu=64), False),
        (Needs(label={"zone": "eu"}), Allocation(label={"disk": "ssd"}), False),
        (Needs(image=f"app@{DIGEST}"), Allocation(image=Image(manifest_digest=DIGEST)), True),
        (Needs(image=f"app@{DIGEST}"), Allocation(image=Image(manifest_digest=OTHER_DIGEST)), False),
        (Needs(image=f"app@{DIGEST}"), Allocation(image=Image(reference=f"app@{DIGEST}")), False),
        (Needs(image=f"app@{DIGEST}"), Allocation(image=Image(image_id=DIGEST)), False),
    ],
    ids=str,
)
def test_what_is_not_known_satisfies_no_need(
    site: Site, needs: Needs, allocation: Allocation, *, fits: bool
) -> None:
    """G11, G17: empty needs fit anywhere, unknown facts nothing, and a digest only the manifest's own."""

    @recipe(needs=needs)
    def wanting(run: Run) -> str:
        return "done"

    slot = site.slot(wanting, allocation=allocation)
    handle = start_in(site, [slot], wanting)
    slot.drain()

    assert (handle.status() == "completed") is fits
    assert site.kinds(handle).count("handoff") == (0 if fits else 1)
    assert outbox(site) == []


class Broken(Admission):
    """An adapter whose comparison fails, as one of somebody else's making may."""

    def compare(self, demand: Demand) -> tuple[Mismatch, ...]:
        raise RuntimeError(f"cannot compare {demand}")


def test_an_admission_that_fails_holds_nothing_and_a_lapse_brings_the_work_back(
    site: Site, tasks: Bodies, mixed: RecipeDefinition[list[str]], ran: list[str]
) -> None:
    """Seed 000: its keepalive stops; ordinary lease expiry does the rest."""
    presence = Switch()
    slot = site.slot(*tasks.values(), mixed, allocation=BIG, presence=presence)
    handle = start_in(site, [slot], mixed)
    lease = leases_of(slot).claim()
    assert lease is not None
    presence.show(Phase.RECIPE, [(lease.route, lease.token, False)])
    with pytest.raises(RuntimeError, match="cannot compare"):
        Broken(leases_of(slot), BIG, presence=presence).accept(lease)

    assert presence.shown[-1] == (Phase.IDLE, ())
    assert site.record(handle)["where"] == "leased"
    take_over(site, slot)
    site.slot(*tasks.values(), mixed, allocation=BIG).drain()
    assert handle.result(1) == ["light", "heavy", "last"]
    assert ran == ["light", "heavy", "last"]


def test_an_admission_that_is_cut_off_holds_nothing_and_a_lapse_brings_the_work_back(
    site: Site, tasks: Bodies, ran: list[str]
) -> None:
    """G16: it cannot know whether the route was given back, so it stops and tells nobody."""

    @recipe(needs=NEEDS)
    def wanting(run: Run) -> str:
        return run.call(tasks["last"])

    presence, told = Switch(), list[HandoffEvent]()
    settings = Settings(resend=timedelta(seconds=0.2))
    with (
        LossyProxy(unquote(site.store.url.removeprefix("unix://"))) as proxy,
        open_store(proxy.url, namespace=site.store.namespace, settings=settings, test_clock=True) as cut,
    ):
        remote = Site(cut, site.redis)
        slot = remote.slot(
            *tasks.values(), wanting, allocation=SMALL, presence=presence, on_handoff=told.append
        )
        handle = start_in(site, [slot], wanting)
        lease = leases_of(slot).claim()
        assert lease is not None
        presence.show(Phase.RECIPE, [(lease.route, lease.token, False)])
        cut.client.close()
        with proxy.down(), pytest.raises((StoreUnreachable, Unconfirmed)):
            slot._bench.admission.accept(lease)

    assert presence.shown[-1] == (Phase.IDLE, ())
    assert told == []
    assert site.record(handle)["where"] == "leased"
    take_over(site, slot)
    site.slot(*tasks.values(), wanting, allocation=BIG).drain()
    assert handle.result(1) == "last"
    assert ran == ["last"]
    assert site.kinds(handle).count("handoff") == 0


# -- guarded tasks -------------------------------------------------------------------------------------------


def test_a_task_that_nothing_guards_is_refused_and_named(site: Site, tasks: Bodies) -> None:
    """G17: what is staged for it would be enforced by nobody."""
    admission = site.slot(*tasks.values(), allocation=SMALL)._bench.admission
    wrapped = {name: admission.wrap_task(one) for name, one in tasks.items() if name != "heavy"}
    with pytest.raises(UnguardedTask, match="task heavy is not guarded"):
        Workset(recipes={}, tasks={**wrapped, "heavy": tasks["heavy"]})


def test_tasks_wrapped_one_by_one_run(
    site: Site, tasks: Bodies, mixed: RecipeDefinition[list[str]], ran: list[str]
) -> None:
    slot = site.slot(*tasks.values(), mixed, allocation=BIG)
    admission = Admission(leases_of(slot), BIG, presence=slot._bench.presence)
    workset = Workset(
        recipes={mixed.key: mixed}, tasks={name: admission.wrap_task(one) for name, one in tasks.items()}
    )
    handle = site.run(mixed)
    over(slot, admission, workset).drain()
    assert handle.result(1) == ["light", "heavy", "last"]
    assert ran == ["light", "heavy", "last"]


class Asked(Admission):
    """An adapter that notes which guards are asked."""

    def __init__(self, runtime: SlotLeases, allocation: Allocation) -> None:
        super().__init__(runtime, allocation)
        self.asked: list[str] = []

    def wrap_task(self, task: TaskDefinition[..., Any]) -> GuardedTask:
        guarded = super().wrap_task(task)

        def lacks(execution: str) -> Sequence[Mismatch]:
            self.asked.append(task.name)
            return guarded.lacks(execution)

        return GuardedTask(task, lacks)


def test_completed_calls_ask_no_guard_wherever_they_are_replayed(
    site: Site, tasks: Bodies, ran: list[str]
) -> None:
    """G5: a replay never asks for the environment that a finished task once ran in."""

    @task(needs=Needs(label={"zone": "eu"}))
    def local() -> str:
        ran.append("local")
        return "local"

    @recipe
    def moving(run: Run) -> list[str]:
        return [run.call(tasks["heavy"]), run.call(local), run.call(tasks["last"])]

    big = site.slot(*tasks.values(), local, moving, allocation=BIG)
    handle = site.run(moving)
    big.drain()
    assert ran == ["heavy"]
    site.retire(big)
    slot = site.slot(*tasks.values(), local, moving, allocation=Allocation(label={"zone": "eu"}))
    admission = Asked(leases_of(slot), slot._bench.admission.allocation)
    definitions = Definitions.of([*tasks.values(), local, moving])
    driver = over(slot, admission, Workset.of(definitions, admission))
    driver.drain()
    site.place_parked()
    driver.drain()

    assert handle.result(1) == ["heavy", "local", "last"]
    assert ran == ["heavy", "local", "last"]
    assert admission.asked == ["last"]


# -- preflight -----------------------------------------------------------------------------------------------


def test_preflight_hands_off_what_was_never_published_and_publishes_it(site: Site) -> None:
    """G11: once, with one event for the provisioner; then it goes by what is published."""
    told: list[HandoffEvent] = []
    small = site.slot(demanding, allocation=SMALL, on_handoff=told.append)
    handle = start_in(site, [small], demanding, published=False)
    assert "demand" not in site.record(handle)
    small.drain()

    record = site.record(handle)
    assert (record["where"], record["demand"], record["revision"]) == (
        "environment",
        Demand(recipe=NEEDS).published,
        1,
    )
    (event,) = told
    assert event.published
    (stored,) = outbox(site)
    assert (stored["instance"], stored["execution"]) == (INSTANCE, "e")
    assert stored["body"] == event.arguments()["event"]
    assert broken(site.store) == []

    big = site.slot(demanding, allocation=BIG)
    assert site.record(handle)["queue"] == leases_of(big).holder.queue
    big.drain()
    assert handle.result(1) == "done"
    assert len(outbox(site)) == 1


def test_preflight_on_a_slot_that_fits_publishes_nothing(
    site: Site, tasks: Bodies, mixed: RecipeDefinition[list[str]], ran: list[str]
) -> None:
    big = site.slot(*tasks.values(), mixed, allocation=BIG)
    handle = start_in(site, [big], mixed, published=False)
    big.drain()
    assert handle.result(1) == ["light", "heavy", "last"]
    assert ran == ["light", "heavy", "last"]
    assert "demand" not in site.record(handle)
    assert outbox(site) == []


def test_a_task_route_without_a_demand_stops_its_execution(
    site: Site, tasks: Bodies, mixed: RecipeDefinition[list[str]], ran: list[str]
) -> None:
    """G17: that is an error which names the execution, and never a task without needs."""
    small = site.slot(*tasks.values(), mixed, allocation=SMALL)
    handle = site.run(mixed)
    small.drain()
    assert ran == ["light"]
    site.edit_record(handle, "1:heavy", demand=None)
    route = f"default/{handle.id}/1:heavy"
    big = unplaced_slot(site, *tasks.values(), mixed, allocation=BIG)
    lease = leases_of(big).claim(target=route)
    assert lease is not None
    with pytest.raises(Malformed, match="no demand has been published"):
        big._bench.admission.accept(lease, base=mixed.needs)
    leases_of(big).reschedule(lease, reason="test")
    big.pursue(route)

    record = site.record(handle, "1:heavy")
    assert record["where"] == "blocked"
    assert record["error"] == f"execution {handle.id}: the demand of 1:heavy: no demand has been published"
    assert ran == ["light"]


# -- targeted acquisition ------------------------------------------------------------------------------------


def test_parked_work_is_handed_off_again_by_who_lacks_what_it_needs(
    site: Site, tasks: Bodies, mixed: RecipeDefinition[list[str]], ran: list[str]
) -> None:
    """G11: asked for by name it is given back once, and nothing is published or told a second time."""
    told: list[HandoffEvent] = []
    small = site.slot(*tasks.values(), mixed, allocation=SMALL, on_handoff=told.append)
    handle = site.run(mixed, id="e")
    small.drain()
    before = site.record(handle, "1:heavy")
    assert (before["where"], len(outbox(site)), len(told)) == ("environment", 1, 1)

    for route in ("default/e/1:heavy", ROUTE):
        assert small.pursue(route)

    after = site.record(handle, "1:heavy")
    assert [event.published for event in told] == [True, False, False]
    assert {name: after[name] for name in ("where", "demand", "revision", "attempt")} == {
        name: before[name] for name in ("where", "demand", "revision", "attempt")
    }
    assert len(outbox(site)) == 1
    assert ran == ["light"]
    assert broken(site.store) == []


def test_parked_work_is_run_by_who_has_what_it_needs_though_nobody_offered_it(
    site: Site, tasks: Bodies, mixed: RecipeDefinition[list[str]], ran: list[str]
) -> None:
    """G5, G11: it goes on to the end of the execution, by name."""
    small = site.slot(*tasks.values(), mixed, allocation=SMALL)
    handle = site.run(mixed)
    small.drain()
    big = unplaced_slot(site, *tasks.values(), mixed, allocation=BIG)
    assert site.record(handle, "1:heavy")["where"] == "environment"

    assert big.pursue(f"default/{handle.id}/recipe")

    assert handle.result(1) == ["light", "heavy", "last"]
    assert ran == ["light", "heavy", "last"]
    assert broken(site.store) == []


def test_work_by_name_ends_with_the_handoff_that_it_makes_itself(
    site: Site, tasks: Bodies, mixed: RecipeDefinition[list[str]], ran: list[str]
) -> None:
    """G11: the route that a slot has just opened elsewhere is not claimed back by the same slot."""
    told: list[HandoffEvent] = []
    small = site.slot(*tasks.values(), mixed, allocation=SMALL, on_handoff=told.append)
    handle = site.run(mixed)
    small.pursue(f"default/{handle.id}/recipe")

    assert [(event.capability, event.published) for event in told] == [("1:heavy", True)]
    assert site.kinds(handle, "1:heavy").count("handoff") == 1
    assert site.kinds(handle, "1:heavy").count("claimed") == 0
    assert ran == ["light"]


def test_work_by_name_goes_on_after_a_suspension_that_this_slot_meets(site: Site, ran: list[str]) -> None:
    @task
    def first(ctx: TaskContext) -> str:
        ran.append("first")
        ctx.suspend(Needs(memory="512Mi"))
        return "first"

    @recipe
    def steps(run: Run) -> list[str]:
        return [run.call(first), run.call(first)]

    small = site.slot(first, steps, allocation=SMALL)
    handle = site.run(steps)
    small.pursue(f"default/{handle.id}/recipe")
    assert handle.result(1) == ["first", "first"]
    assert ran == ["first", "first"]


def test_work_by_name_leaves_everything_else_where_it_is(
    site: Site, tasks: Bodies, mixed: RecipeDefinition[list[str]], ran: list[str]
) -> None:
    big = site.slot(*tasks.values(), mixed, allocation=BIG)
    other, handle = site.run(mixed), site.run(mixed)
    big.pursue(f"default/{handle.id}/recipe")
    assert handle.result(1) == ["light", "heavy", "last"]
    assert site.record(other)["where"] == "waiting"
    assert len(ran) == 3
    big.drain()
    assert other.result(1) == ["light", "heavy", "last"]


def test_a_map_is_worked_on_by_name(site: Site, ran: list[str]) -> None:
    @task
    def square(n: int) -> int:
        ran.append(f"square {n}")
        return n * n

    @recipe
    def squares(run: Run) -> int:
        return sum(run.map(square, range(3)))

    slot = site.slot(square, squares)
    handle = site.run(squares)
    slot.pursue(f"default/{handle.id}/recipe")
    assert handle.result(1) == 5
    assert sorted(ran) == ["square 0", "square 1", "square 2"]


def test_a_lease_of_somebody_elses_cannot_be_claimed_by_name(
    site: Site, tasks: Bodies, mixed: RecipeDefinition[list[str]], ran: list[str]
) -> None:
    """G1: what is polled for and what is asked for by name are leases of one kind."""
    big, rival = (site.slot(*tasks.values(), mixed, allocation=BIG) for _ in range(2))
    handle = site.run(mixed, id="e")
    polled = leases_of(big).claim()
    assert polled is not None
    assert leases_of(rival).claim(target=ROUTE) is None
    rival.pursue(ROUTE)
    assert ran == []
    assert site.record(handle)["token"] == polled.token

    leases_of(big).reschedule(polled, reason="test")
    named = leases_of(rival).claim(target=ROUTE)
    assert named is not None
    assert leases_of(big).claim() is None
    assert leases_of(big).claim(target=ROUTE) is None
    leases_of(rival).reschedule(named, reason="test")
    big.drain()
    assert handle.result(1) == ["light", "heavy", "last"]
    assert ran == ["light", "heavy", "last"]


def test_a_task_that_is_done_stands_for_its_execution(site: Site, tasks: Bodies, ran: list[str]) -> None:
    """G5: its name goes on as recipe work, and nothing of it runs again."""

    @task
    def first(ctx: TaskContext) -> str:
        ran.append("first")
        ctx.suspend(NEEDS)
        return "first"

    @recipe
    def steps(run: Run) -> list[str]:
        return [run.call(first), run.call(tasks["last"])]

    small = site.slot(first, *tasks.values(), steps, allocation=SMALL)
    handle = site.run(steps, id="e")
    small.drain()
    assert site.statuses(handle) == {"0:first": "completed"}
    big = unplaced_slot(site, first, *tasks.values(), steps, allocation=BIG)
    lease = leases_of(big).claim(target="default/e/0:first")
    assert lease is not None
    assert lease.is_recipe
    leases_of(big).reschedule(lease, reason="test")

    big.pursue("default/e/0:first")
    assert handle.result(1) == ["first", "last"]
    assert ran == ["first", "last"]


def test_a_name_that_leads_nowhere_gives_nothing(
    site: Site, tasks: Bodies, mixed: RecipeDefinition[list[str]], ran: list[str]
) -> None:
    """G6: nor does one of an execution that has ended, nor that of another instance."""
    big = site.slot(*tasks.values(), mixed, allocation=BIG)
    done, cancelled = site.run(mixed), site.run(mixed)
    assert cancelled.cancel() == "cancelled"
    big.drain()
    waiting = site.run(mixed, id="e")
    ran.clear()

    for route in (
        "default/nobody/recipe",
        f"default/{done.id}/recipe",
        f"default/{done.id}/0:light",
        f"default/{cancelled.id}/recipe",
        "other/e/recipe",
        "default/e/7:nothing",
        "e",
        "",
    ):
        assert leases_of(big).claim(target=route) is None, route
        assert big.pursue(route)
    assert ran == []
    assert site.record(waiting)["where"] == "waiting"

    theirs = Client(store=site.store, instance="other").start(mixed, id="e")
    big.pursue("other/e/recipe")
    assert theirs.result(1) == ["light", "heavy", "last"]
    assert site.record(waiting)["where"] == "waiting"


# -- where it is offered -------------------------------------------------------------------------------------


def test_a_queue_is_offered_a_route_again_when_its_demand_has_changed(site: Site, ran: list[str]) -> None:
    """G11: the demand that it handed off is what keeps it away, not the route."""

    @task
    def first(ctx: TaskContext) -> str:
        ran.append("first")
        ctx.suspend(Needs(memory="512Mi"))
        return "first"

    @task
    def second() -> str:
        ran.append("second")
        return "second"

    @recipe(needs=NEEDS)
    def shrinking(run: Run) -> list[str]:
        return [run.call(first), run.call(second)]

    small = site.slot(first, second, shrinking, allocation=SMALL)
    handle = start_in(site, [small], shrinking)
    small.drain()
    queue = leases_of(small).holder.queue
    assert site.record(handle)["avoid"] == {queue: True}
    revision = site.store.sessions.revision()
    assert site.store.duties.place(site.lead(), ROUTE, [(queue, 0)], registry=revision) == "parked"

    big = site.slot(first, second, shrinking, allocation=BIG)
    small.drain()
    big.drain()
    assert ran == ["first"]
    record = site.record(handle)
    assert (record["where"], record["queue"]) == ("waiting", queue)
    small.drain()
    assert handle.result(1) == ["first", "second"]
    assert ran == ["first", "second"]


# -- small things that must hold -----------------------------------------------------------------------------


def test_a_first_demand_is_placed_anew(site: Site) -> None:
    """G11: what was placed by code alone is not offered on to the next that only has the code."""
    small, medium = (site.slot(demanding, allocation=Allocation(memory=memory)) for memory in ("1Gi", "2Gi"))
    handle = start_in(site, [small, medium], demanding, published=False)
    small.drain()

    assert site.record(handle)["where"] == "environment"
    assert medium.drain()
    assert site.kinds(handle).count("handoff") == 1


def test_a_session_that_drains_claims_nothing_by_name(site: Site) -> None:
    slot = site.slot(demanding, allocation=BIG)
    handle = site.run(demanding, id="e")
    holder = leases_of(slot).holder
    site.store.sessions.retire(holder.session, holder.generation, SessionState.DRAINING)

    assert leases_of(slot).claim(target=ROUTE) is None
    assert site.record(handle)["where"] == "waiting"


def test_the_ticket_of_what_was_claimed_by_name_goes_with_it(site: Site) -> None:
    """G10: RQ's queue is as long as the backlog."""
    site.slot(demanding, allocation=BIG)
    site.run(demanding, id="e")
    other = site.slot(demanding, allocation=Allocation(memory="16Gi"))
    tickets = site.store.keys("tickets", site.record(site.client.get("e"))["queue"])
    assert site.redis.llen(tickets) == 1

    assert leases_of(other).claim(target=ROUTE) is not None

    assert site.redis.llen(tickets) == 0
    assert list(site.redis.scan_iter(f"rq:job:{site.store.namespace}-*")) == []
