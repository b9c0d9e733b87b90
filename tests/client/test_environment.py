"""What executions wait for of slots: every status, who asks for what, and what an allocation would meet."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest
import redis

from tenure import Allocation, Client, Handle, Needs, Run, TaskContext, recipe, task
from tenure.client.environment import Environment, environment_of
from tenure.errors import InvalidInput
from tenure.model.allocation import Image
from tenure.model.demand import Layer
from tenure.wiring import open_store
from tests.engine.site import INSTANCE, Site
from tests.samples import DEFINITIONS, billing

SMALL, MEDIUM, BIG = Allocation(memory="1Gi"), Allocation(memory="4Gi"), Allocation(memory="16Gi")


@task(needs=Needs(memory="8Gi"))
def crunch(number: int = 1) -> int:
    return number


@task
def light(number: int = 1) -> int:
    return number


@recipe
def heavy(run: Run) -> int:
    return run.call(crunch)


@recipe
def easy(run: Run) -> int:
    return run.call(light)


@recipe(needs=Needs(memory="2Gi"))
def demanding(run: Run) -> int:
    return run.call(light)


@recipe(needs=Needs(cpu="1", memory="2Gi"))
def layered(run: Run) -> int:
    with run.needs(memory="8Gi", platform="linux/amd64"):
        return run.call(light, needs=Needs(platform="linux/arm64", label={"disk": "ssd"}))


@recipe(needs=Needs(memory="2Gi"))
def sleeper(run: Run) -> int:
    with run.needs(memory="8Gi"):
        run.sleep("1h")
        return run.call(light)


@recipe
def many(run: Run) -> list[int]:
    return run.map(crunch, range(4))


@recipe
def easy_map(run: Run) -> list[int]:
    return run.map(light, range(4))


TASKS = (crunch, light)


@pytest.fixture
def site(url: str, namespace: str, redis_client: redis.Redis) -> Iterator[Site]:
    with open_store(url, namespace=namespace, test_clock=True) as store:
        yield Site(store, redis_client)


def seen(handle: Handle) -> Environment:
    """As a look at the one and as a listing have it, which must be the same."""
    environment = environment_of(handle.snapshot())
    (row,) = [one for one in client_of(handle).list() if one.id == handle.id]
    assert environment_of(row) == environment
    return environment


def client_of(handle: Handle) -> Client:
    return Client(store=handle._store)


def shapes(environment: Environment) -> list[tuple[str, str, str]]:
    return [(one.demand.capability, one.reason, one.demand.status) for one in environment.routes]


def forget_demand(site: Site, handle: Handle) -> None:
    """As one has it that was started where the recipe's code is not known."""
    site.edit_record(handle, demand=None, revision=None)


def fitting(site: Site, allocation: Allocation, **arguments: Any) -> set[str]:
    return {one.id for one in site.client.list(compatible_with=allocation, **arguments)}


# -- what waits ----------------------------------------------------------------------------------------------


def test_a_task_that_nobody_can_take_shows_what_it_needs_and_who_had_too_little(site: Site) -> None:
    slot = site.slot(*TASKS, heavy, allocation=SMALL)
    handle = site.run(heavy)
    slot.drain()
    environment = seen(handle)
    assert environment.status == "specified"
    # The recipe waits for its task, and so it is not itself one that waits for a slot.
    assert shapes(environment) == [("0:crunch", "awaiting_environment", "specified")]
    assert environment.to_data()["routes"] == [
        {
            "capability": "0:crunch",
            "reason": "awaiting_environment",
            "demand": "specified",
            "needs": {"memory": "8Gi"},
            "sources": {"memory": "task"},
            "required_by": {},
            "revision": 1,
            "handed_off": {"memory": "1Gi"},
            "demand_error": None,
        }
    ]


def test_who_is_last_to_ask_for_a_property_is_its_source(site: Site) -> None:
    slot = site.slot(*TASKS, layered, allocation=Allocation(cpu="1", memory="2Gi", label={"zone": "eu"}))
    handle = site.run(layered, needs=Needs(label={"zone": "eu"}))
    (route,) = seen(handle).routes
    assert route.demand.sources == {"cpu": Layer.RECIPE, "memory": Layer.RECIPE, "label.zone": Layer.JOB}
    slot.drain()
    (route,) = seen(handle).routes
    assert route.demand.capability == "0:light"
    assert route.demand.sources == {
        "cpu": Layer.RECIPE,
        "memory": Layer.SCOPE,
        "platform": Layer.TASK,
        "label.disk": Layer.TASK,
        "label.zone": Layer.JOB,
    }
    assert str(route.demand).startswith("cpu=1 (recipe), memory=8Gi (scope), platform=linux/arm64 (task)")
    assert route.demand.to_data()["sources"] == {
        "cpu": "recipe",
        "memory": "scope",
        "platform": "task",
        "label": {"disk": "task", "zone": "job"},
    }


def test_a_recipe_shows_what_it_was_started_with(site: Site) -> None:
    ready, later = site.run(easy), site.run(demanding, delay="1h")
    assert shapes(seen(ready)) == [("recipe", "awaiting_environment", "unspecified")]
    assert shapes(seen(later)) == [("recipe", "awaiting_time", "specified")]
    site.slot(*TASKS, easy)
    assert shapes(seen(ready)) == [("recipe", "ready", "unspecified")]


def test_a_recipe_whose_demand_was_never_published_is_unresolved(site: Site) -> None:
    handle = site.run(demanding)
    forget_demand(site, handle)
    environment = seen(handle)
    assert environment.status == "unresolved"
    (route,) = environment.routes
    assert (route.demand.needs, route.demand.revision) == (None, None)


def test_what_suspends_shows_what_it_requires_now(site: Site) -> None:
    @task
    def grow(ctx: TaskContext) -> None:
        ctx.suspend(Needs(memory="8Gi"))

    @recipe(needs=Needs(memory="1Gi"))
    def growing(run: Run) -> None:
        run.call(grow)
        run.call(grow)

    slot = site.slot(grow, growing, allocation=SMALL)
    handle = site.run(growing)
    slot.drain()
    (route,) = seen(handle).routes
    assert (route.demand.capability, route.demand.revision, route.demand.handed_off) == (
        "recipe",
        2,
        "memory=1Gi",
    )
    assert route.demand.sources == {"memory": Layer.JOB}
    assert str(route.demand) == "memory=8Gi (job, by 0:grow)"


@task
def ask(needs: dict[str, Any], ctx: TaskContext) -> None:
    ctx.suspend(Needs(**needs))


@recipe
def asking(run: Run, needs: list[dict[str, Any]], *, last: int = 0) -> None:
    """Each for itself, then the last ones together."""
    alone = needs[: len(needs) - last]
    for one in alone:
        run.call(ask, one)
    if last:
        run.map(ask, needs[len(alone) :])
    run.call(light, needs=Needs(label={"disk": "ssd"}))


EVERYTHING = Allocation(memory="8Gi", label={"zone": "eu", "disk": "hdd"})


@pytest.mark.parametrize(
    ("needs", "last", "required_by"),
    [
        ([{"memory": "2Gi"}], 0, {"memory": "0:ask"}),
        ([{"memory": "2Gi"}, {"memory": "4Gi"}], 0, {"memory": "1:ask"}),
        ([{"memory": "4Gi"}, {"label": {"zone": "eu"}}], 0, {"memory": "0:ask", "label": {"zone": "1:ask"}}),
        ([{"memory": f"{n}Gi"} for n in range(2, 5)], 3, {"memory": "0:ask:2"}),
        ([], 0, {}),
    ],
)
def test_who_suspended_for_a_property_is_named(
    site: Site, needs: list[dict[str, Any]], last: int, required_by: dict[str, Any]
) -> None:
    """The last in the order of the calls; what the job was started with was required by no task."""
    handle = site.run(asking, needs, last=last, needs=Needs(memory="1Gi", label={"zone": "eu"}))
    site.slot(ask, *TASKS, asking, allocation=EVERYTHING).drain()
    (route,) = environment_of(handle.snapshot()).routes
    data = route.demand.to_data()
    assert data["required_by"] == required_by
    assert data["sources"] == {"memory": "job", "label": {"disk": "task", "zone": "job"}}
    # A listing has no records of what has ended, and says no more than it knows.
    (row,) = site.client.list()
    assert not environment_of(row).routes[0].demand.required_by


def test_a_property_that_the_job_was_started_with_is_not_put_on_a_later_suspension(site: Site) -> None:
    """The demand of a route stays as it was when that was opened."""
    handle = site.run(asking, [{"memory": "2Gi"}], needs=Needs(memory="1Gi"))
    site.slot(ask, *TASKS, asking, allocation=EVERYTHING).drain()
    site.edit_record(handle, "1:light", demand='{"job":{"memory":"1Gi"}}')
    (route,) = environment_of(handle.snapshot()).routes
    assert str(route.demand) == "memory=1Gi (job)"
    site.edit_record(handle, "1:light", ordinal=0, demand='{"job":{"memory":"2Gi"}}')
    (route,) = environment_of(handle.snapshot()).routes
    assert str(route.demand) == "memory=2Gi (job)"


def test_a_directive_that_cannot_be_read_any_more_is_nobodys(site: Site) -> None:
    handle = site.run(asking, [{"memory": "2Gi"}])
    site.slot(ask, *TASKS, asking, allocation=EVERYTHING).drain()
    site.edit_record(handle, "0:ask", directive="{")
    (route,) = environment_of(handle.snapshot()).routes
    assert route.demand.required_by == {}


def test_scopes_hold_while_the_recipe_sleeps_in_them_and_are_spent_after(site: Site) -> None:
    """Once the coordinates that they were published for have a result, nothing goes by them."""
    slot = site.slot(*TASKS, sleeper, allocation=MEDIUM)
    handle = site.run(sleeper)
    slot.drain()
    environment = seen(handle)
    assert shapes(environment) == [("recipe", "awaiting_time", "specified")]
    assert environment.routes[0].demand.sources == {"memory": Layer.SCOPE}
    # No slot can take it before its time.
    assert fitting(site, BIG) == set()

    site.pass_ms(3_600_001)
    site.store.duties.make_ready(site.lead(), f"{INSTANCE}/{handle.id}/recipe")
    (route,) = seen(handle).routes
    assert route.reason == "ready"
    assert route.demand.needs == Needs(memory="2Gi")
    assert route.demand.sources == {"memory": Layer.RECIPE}
    assert site.record(handle)["demand"].count("8Gi")
    assert fitting(site, MEDIUM) == {handle.id}


def test_a_look_that_just_missed_the_timer_still_shows_the_scopes(site: Site) -> None:
    """A listing reads names before records, so a timer may be opened in between."""
    slot = site.slot(*TASKS, sleeper, allocation=MEDIUM)
    handle = site.run(sleeper)
    slot.drain()
    (timer,) = (name for name, record in handle.snapshot().records.items() if record.get("kind") == "timer")
    site.redis.srem(site.store.keys("in_flight", INSTANCE, handle.id), timer)
    (row,) = site.client.list()
    assert set(row.records) == {"recipe"}
    assert environment_of(row).routes[0].demand.needs == Needs(memory="8Gi")


# -- what cannot be read -------------------------------------------------------------------------------------

MALFORMED = [
    '{"job":{"memory":"lots"}}',
    '{"at":7}',
    "[]",
    "null",
    "",
    "memory=1Gi",
    0,
    False,
    [],
    b"\xff\xfe",
]
NEWER = ['{"job":{"quantum":"2"}}', '{"galaxy":{"memory":"1Gi"}}']


@pytest.mark.parametrize(
    ("demand", "status"),
    [*((demand, "malformed") for demand in MALFORMED), *((demand, "unsupported") for demand in NEWER)],
)
def test_what_cannot_be_read_is_said_and_is_never_no_needs(site: Site, demand: Any, status: str) -> None:
    """G17: before a slot has met it and after."""
    handle = site.run(easy)
    slot = site.slot(*TASKS, easy, allocation=BIG)
    site.edit_record(handle, demand=demand)
    for reason in ("ready", "blocked"):
        environment = seen(handle)
        assert environment.status == status
        assert shapes(environment) == [("recipe", reason, status)]
        assert environment.routes[0].demand.needs is None
        assert f"execution {handle.id}: the demand of recipe" in str(environment.routes[0].demand.error)
        assert fitting(site, BIG, include_unresolved=True) == set()
        assert f"what the recipe demands is {status}" in handle.explain().summary or reason == "blocked"
        assert handle.explain().summary.count("the demand of recipe") == (reason == "blocked")
        slot.drain()


def test_a_task_without_a_demand_is_malformed(site: Site) -> None:
    slot = site.slot(*TASKS, heavy, allocation=SMALL)
    handle = site.run(heavy)
    slot.drain()
    site.edit_record(handle, "0:crunch", demand=None)
    assert seen(handle).status == "malformed"
    assert fitting(site, BIG, include_unresolved=True) == set()


def test_no_other_route_hides_what_cannot_be_read(site: Site) -> None:
    """The worst of all routes that wait is what the execution says."""
    slot = site.slot(*TASKS, many, allocation=SMALL)
    handle = site.run(many)
    slot.drain()
    assert [one.demand.capability for one in seen(handle).routes] == [f"0:crunch:{n}" for n in range(4)]
    assert fitting(site, BIG) == {handle.id}
    site.edit_record(handle, "0:crunch:2", demand=NEWER[0])
    assert seen(handle).status == "unsupported"
    site.edit_record(handle, "0:crunch:3", demand="[]")
    environment = seen(handle)
    assert environment.status == "malformed"
    assert [one.demand.status for one in environment.routes] == [
        *("specified", "specified", "unsupported", "malformed")
    ]
    assert fitting(site, BIG) == set()


# -- what does not wait --------------------------------------------------------------------------------------


def look_from_within(site: Site, look: Callable[[Handle], None]) -> None:
    """In item 1 of a map of four that need 2Gi each."""

    @task(needs=Needs(memory="2Gi"))
    def within(number: int) -> int:
        if number == 1:
            look(site.client.get("looking"))
        return number

    @recipe
    def looking(run: Run) -> list[int]:
        return run.map(within, range(4))

    slot = site.slot(within, looking, allocation=MEDIUM)
    handle = site.run(looking, id="looking")
    slot.drain()
    assert handle.result(1) == [0, 1, 2, 3]


def test_what_runs_is_in_flight_and_does_not_hide_what_waits_beside_it(site: Site) -> None:
    looks: list[Environment] = []

    def look(handle: Handle) -> None:
        looks.append(seen(handle))
        assert fitting(site, SMALL, include_unresolved=True) == set()
        assert fitting(site, MEDIUM) == {"looking"}

    look_from_within(site, look)
    (environment,) = looks
    assert environment.status == "in_flight"
    assert shapes(environment) == [(f"0:within:{n}", "ready", "specified") for n in (2, 3)]


def test_what_runs_does_not_hide_what_cannot_be_read(site: Site) -> None:
    """G17"""
    statuses: list[str] = []

    def look(handle: Handle) -> None:
        whole = site.record(handle, "0:within:3")["demand"]
        for demand in (NEWER[0], "[]"):
            site.edit_record(handle, "0:within:3", demand=demand)
            statuses.append(seen(handle).status)
            assert fitting(site, BIG, include_unresolved=True) == set()
        site.edit_record(handle, "0:within:3", demand=whole)

    look_from_within(site, look)
    assert statuses == ["unsupported", "malformed"]


def test_nothing_runs_beside_a_single_route(site: Site) -> None:
    looks: list[Environment] = []

    @task
    def only(execution: str) -> None:
        looks.append(seen(site.client.get(execution)))

    @recipe
    def alone(run: Run) -> None:
        run.call(only, "alone")

    slot = site.slot(only, alone)
    site.run(alone, id="alone")
    slot.drain()
    assert [look.to_data() for look in looks] == [{"status": "in_flight", "routes": []}]


def test_a_lapsed_lease_is_in_flight_until_it_is_taken_over(site: Site) -> None:
    handle = site.run(easy)
    slot = site.slot(*TASKS, easy)
    slot._bench.leases.claim()
    assert seen(handle).status == "in_flight"
    site.redis.zadd(site.store.keys("leased"), {f"{INSTANCE}/{handle.id}/recipe": 1})
    assert handle.explain().reason == "crash_concern"
    assert seen(handle).status == "in_flight"


def test_a_lost_outcome_is_in_flight(site: Site) -> None:
    """It may still run, so nothing of it is for another slot."""
    slot = site.slot(*DEFINITIONS.tasks.values(), *DEFINITIONS.recipes.values())
    handle = site.run(billing, 3, vanish=True)
    site.die_in(slot)
    assert handle.explain().reason == "unknown_outcome"
    assert seen(handle).to_data() == {"status": "in_flight", "routes": []}
    assert fitting(site, BIG, include_unresolved=True) == set()


def test_what_has_ended_waits_for_nothing(site: Site) -> None:
    slot = site.slot(*TASKS, easy)
    done, gone = site.run(easy), site.run(demanding)
    slot.drain()
    gone.cancel()
    for handle in (done, gone):
        assert seen(handle).to_data() == {"status": "not_waiting", "routes": []}
    assert fitting(site, BIG, include_unresolved=True) == set()


# -- what an allocation would meet ---------------------------------------------------------------------------


def run_one_of_each(site: Site) -> None:
    """Each under the name of what it is; the slot has run what it could."""
    slot = site.slot(*TASKS, heavy, easy, layered, allocation=Allocation(cpu="1", memory="2Gi"))
    for recipe_, execution in ((easy, "done"), (heavy, "heavy"), (layered, "layered")):
        site.run(recipe_, id=execution)
    slot.drain()
    site.run(demanding, id="demanding")
    site.run(sleeper, id="later", delay="1h")
    site.run(easy_map, id="easy")
    for execution in ("unresolved", "malformed", "newer"):
        site.run(demanding, id=execution)
    forget_demand(site, site.client.get("unresolved"))
    site.edit_record(site.client.get("malformed"), demand="{")
    site.edit_record(site.client.get("newer"), demand=NEWER[0])


def test_an_allocation_selects_what_it_would_meet(site: Site) -> None:
    run_one_of_each(site)
    assert fitting(site, Allocation(memory="1Gi")) == {"easy"}
    assert fitting(site, Allocation(memory="2Gi")) == {"easy", "demanding"}
    assert fitting(site, Allocation(memory="16Gi")) == {"easy", "demanding", "heavy"}
    # Of a fact that is left out nothing is known, and that meets no need.
    assert fitting(site, Allocation(cpu="64")) == {"easy"}
    assert fitting(site, Allocation(memory="2Gi"), include_unresolved=True) == {
        *("easy", "demanding", "unresolved")
    }
    whole = Allocation(cpu="1", memory="8Gi", platform="linux/arm64", label={"disk": "ssd"})
    assert "layered" in fitting(site, whole)
    other = Allocation(cpu="8", memory="64Gi", platform="linux/amd64", label={"disk": "ssd"})
    assert "layered" not in fitting(site, other)
    assert fitting(site, BIG, status="running") == {"heavy"}
    assert fitting(site, BIG, status="completed") == set()


def test_what_is_blocked_fits_nothing(site: Site) -> None:
    """No allocation frees a recipe that its own code or data has stopped."""
    slot = site.slot(*TASKS, demanding, allocation=BIG)
    handle = site.run(demanding)
    site.redis.hset(site.store.keys("params", INSTANCE, handle.id), "recipe", b"\x02\x80")
    slot.drain()
    assert shapes(seen(handle)) == [("recipe", "blocked", "specified")]
    assert fitting(site, BIG) == set()


@pytest.mark.parametrize("allocation", [Allocation(), Allocation(image=Image(image_id="sha256:0a"))])
def test_an_allocation_without_a_fact_selects_nothing_in_particular(
    site: Site, allocation: Allocation
) -> None:
    with pytest.raises(InvalidInput, match="at least one fact") as refused:
        site.client.list(compatible_with=allocation)
    assert ("image.image_id" in str(refused.value)) is not allocation.is_empty


@pytest.mark.parametrize(
    ("given", "said"),
    [
        (Needs(memory="1Gi"), "these are needs"),
        ("memory=1Gi", r"Allocation\.parse\('memory=1Gi'\)"),
        ({"memory": "1Gi"}, "is no allocation; give one"),
        (7, "7 is no allocation"),
    ],
)
def test_what_is_no_allocation_is_refused_with_what_to_give(site: Site, given: Any, said: str) -> None:
    for ask in (site.client.list, site.client.page):
        with pytest.raises(InvalidInput, match=said):
            ask(compatible_with=given)


def test_unresolved_ones_are_asked_for_with_an_allocation(site: Site) -> None:
    with pytest.raises(InvalidInput, match="include_unresolved widens compatible_with"):
        site.client.list(include_unresolved=True)


def test_zero_is_a_fact(site: Site) -> None:
    site.run(easy, id="easy")
    assert fitting(site, Allocation(gpu=0)) == {"easy"}
