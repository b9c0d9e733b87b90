"""G17: what a newer Tenure has written stays where it is, and goes on when a process comes that reads it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from tenure import Client
from tenure.errors import LeaseLost, Malformed, NewerSchema
from tenure.model.needs import Needs
from tenure.settings import Settings
from tenure.store.grants import Grant
from tenure.store.keys import RECIPE, SCHEMA, route_member
from tenure.store.leases import SlotLeases
from tenure_scheduler.contact import Contact
from tenure_scheduler.duties.deadlines import Deadlines
from tenure_scheduler.duties.due import DueWork
from tenure_scheduler.duties.placement import ParkedWork
from tenure_scheduler.duties.repair import IndexRepair
from tenure_scheduler.duties.report import Duty
from tenure_scheduler.duties.retention import Retention
from tenure_scheduler.duties.takeover import TakeoverScan
from tenure_scheduler.duties.tickets import TicketTopUp
from tests.scheduler.world import World

ROUTE = route_member("default", "e", RECIPE)


def header(world: World, execution: str = "e") -> str:
    return world.store.keys("execution", "default", execution)


def upgrade(world: World, execution: str = "e") -> None:
    """As a newer Tenure has it."""
    world.client.hset(header(world, execution), "schema", str(SCHEMA + 1))


def can_be_read(world: World, execution: str = "e") -> None:
    """As if this process were of that version."""
    world.client.hset(header(world, execution), "schema", str(SCHEMA))


def damage(world: World) -> None:
    world.client.delete(header(world))
    world.client.set(header(world), "no hash")


def lose_status(world: World) -> None:
    world.client.hdel(header(world), "status")


def duties_of(world: World) -> dict[str, Duty]:
    store = world.store
    contact = Contact(Settings(), clock=lambda: 0.0)
    return {
        "repair": IndexRepair(duties=store.duties, settings=Settings()),
        "takeover": TakeoverScan(duties=store.duties, contact=contact),
        "due": DueWork(duties=store.duties),
        "deadlines": Deadlines(duties=store.duties),
        "placement": ParkedWork(duties=store.duties, executions=store.executions, placement=store.placement),
        "retention": Retention(duties=store.duties, settings=Settings()),
        "tickets": TicketTopUp(duties=store.duties),
    }


def bytes_of(world: World) -> dict[str, Any]:
    parts = ("execution", "records", "events")
    return {part: world.client.dump(world.store.keys(part, "default", "e")) for part in parts}


def waiting(world: World) -> str:
    return world.register("agent")


def leased(world: World) -> str:
    slot = world.slot("agent", world.register("agent"))
    world.start("e")
    world.claim(slot)
    world.pass_lease()
    return "leased"


def due(world: World) -> str:
    slot = world.slot("agent", world.register("agent"))
    world.start("e")
    grant = world.claim(slot)
    timer = {"capability": "0:sleep", "ordinal": 0, "task": "sleep", "hash": "h", "effects": "repeatable"}
    slot.step(
        instance="default",
        execution="e",
        recipe={
            "frame": grant.token,
            "token": grant.token,
            "action": "suspend",
            "timer": {**timer, "delay": 1000, "result": b""},
            "awaits": {"capability": "0:sleep"},
        },
    )
    world.pass_ms(1001)
    return "due"


def parked(world: World) -> str:
    world.start("e")
    world.register("agent")
    return "environment"


def overdue(world: World) -> str:
    world.start("e")
    world.client.zadd(world.store.keys("deadlines"), {"default/e": 1})
    return "environment"


STATES = {"takeover": leased, "due": due, "placement": parked, "deadlines": overdue, "repair": parked}


@pytest.mark.parametrize("name", STATES)
def test_a_duty_leaves_it_everywhere_and_says_so_once(
    world: World, leader: int, caplog: pytest.LogCaptureFixture, name: str
) -> None:
    where = STATES[name](world)
    upgrade(world)
    before, duty = bytes_of(world), duties_of(world)[name]

    reports = [duty.run_once(leader) for _ in range(3)]

    assert reports[0].malformed == 1
    assert bytes_of(world) == before
    assert world.indexes("e") == {where}
    assert world.client.zscore(world.store.keys("live"), "default/e") is not None
    if name == "deadlines":
        assert world.client.zscore(world.store.keys("deadlines"), "default/e") is not None
    said = [one.getMessage() for one in caplog.records if "newer Tenure" in one.getMessage()]
    assert len(said) == 1
    assert "default/e" in said[0]


@pytest.mark.parametrize("name", STATES)
def test_it_goes_on_when_a_scheduler_comes_that_reads_it(world: World, leader: int, name: str) -> None:
    where = STATES[name](world)
    upgrade(world)
    duties = duties_of(world)
    for duty in duties.values():
        duty.run_once(leader)
    can_be_read(world)

    if name == "repair":
        world.client.zrem(world.store.keys(where), ROUTE)
    report = duties_of(world)[name].run_once(leader)

    assert report.malformed == 0
    assert {
        "takeover": lambda: world.causes("e") != [],
        "due": lambda: world.indexes("e") == set(world.store.duties.queues()),
        "placement": lambda: world.indexes("e") == set(world.store.duties.queues()),
        "deadlines": lambda: world.events("e")[-1] == "execution_failed",
        "repair": lambda: world.indexes("e") == {where},
    }[name]()


@pytest.mark.parametrize("spoil", [damage, lose_status])
def test_a_header_that_is_damaged_is_not_gone(
    world: World, leader: int, caplog: pytest.LogCaptureFixture, spoil: Callable[[World], None]
) -> None:
    overdue(world)
    spoil(world)
    world.client.zadd(world.store.keys("terminal"), {"default/e": 1})
    for duty in duties_of(world).values():
        duty.run_once(leader)
    for index in ("live", "deadlines", "terminal"):
        assert world.client.zscore(world.store.keys(index), "default/e") is not None, index
    assert world.client.exists(header(world), world.store.keys("records", "default", "e")) == 2
    assert "execution default/e: its header cannot be read" in caplog.text


def test_a_claim_passes_it_by_and_takes_what_is_behind_it(world: World) -> None:
    queue = world.register("agent")
    for execution in ("e", "other"):
        world.start(execution)
    upgrade(world)
    slot = world.slot("agent", queue)
    before = bytes_of(world)

    assert world.claim(slot).execution == "other"
    assert slot.claim() is None

    assert bytes_of(world) == before
    assert world.indexes("e") == {queue}
    can_be_read(world)
    assert world.claim(slot).execution == "e"


def test_many_of_them_at_the_head_of_a_queue_stop_nobody(world: World, leader: int) -> None:
    queue = world.register("agent")
    newer = [f"e{n:02}" for n in range(45)]
    for execution in (*newer, "other"):
        world.start(execution)
    for execution in newer:
        upgrade(world, execution)
    slot = world.slot("agent", queue)

    assert world.claim(slot).execution == "other"

    stay = {execution: world.indexes(execution) for execution in newer}
    assert list(stay.values()) == [{queue}] * 20 + [{"blocked"}] * 25
    for execution in newer:
        can_be_read(world, execution)
    assert duties_of(world)["repair"].run_once(leader).malformed == 0
    assert {execution: world.indexes(execution) for execution in newer} == {one: {queue} for one in newer}


def test_a_queue_that_goes_sets_it_aside_until_it_can_be_read(world: World, leader: int) -> None:
    queue = world.register("agent")
    world.start("e")
    upgrade(world)
    before = bytes_of(world)
    world.pass_lease()
    world.store.duties.expire_session(leader, "agent")
    for _ in range(3):
        duties_of(world)["placement"].run_once(leader)
    assert queue not in world.store.duties.queues()
    assert bytes_of(world) == before
    assert world.indexes("e") == {"blocked"}

    can_be_read(world)
    assert duties_of(world)["repair"].run_once(leader).malformed == 0
    assert world.indexes("e") == {"environment"}


def test_lost_tickets_are_made_up_for_with_its_record_as_it_is(world: World, leader: int) -> None:
    queue = world.register("agent")
    for execution in ("e", "other"):
        world.start(execution)
    upgrade(world)
    world.client.delete(world.store.keys("tickets", queue))
    before = bytes_of(world)
    top_up = duties_of(world)["tickets"]
    assert sum(top_up.run_once(leader).written for _ in range(2)) == 2  # type: ignore[attr-defined]  # its own report
    assert bytes_of(world) == before


@pytest.mark.parametrize("write", ["mark_started", "retry", "reschedule"])
def test_a_slot_whose_execution_was_upgraded_has_lost_its_lease(world: World, write: str) -> None:
    """It lapses, and a process takes it over that reads it."""
    slot, grant = world.claim_task()
    upgrade(world)
    before = bytes_of(world)
    writes: dict[str, Callable[[SlotLeases, Grant], object]] = {
        "mark_started": lambda slot, grant: slot.mark_started(grant),
        "retry": lambda slot, grant: slot.retry(
            grant, error="no", error_type="No", delay_ms=1, in_place_ms=0, claim=False
        ),
        "reschedule": lambda slot, grant: slot.reschedule(grant, reason="drain"),
    }
    with pytest.raises(LeaseLost):
        writes[write](slot, grant)
    assert bytes_of(world) == before
    assert world.store.client.llen(world.store.keys("attempts", "default", "e")) == 0


def test_whoever_cancels_it_is_told_that_it_is_there(world: World) -> None:
    world.start_with("e", Needs(), [], registry=world.store.placement.view().revision)
    client = Client(store=world.store)
    upgrade(world)
    with pytest.raises(NewerSchema, match="execution e was written by a newer Tenure"):
        client.cancel("e")
    lose_status(world)
    world.client.hdel(header(world), "schema")
    with pytest.raises(Malformed, match="execution e: its header cannot be read"):
        client.cancel("e")
