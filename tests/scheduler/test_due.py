from __future__ import annotations

from tenure.store.answers import DueAnswer
from tenure.store.grants import Grant
from tenure.store.leases import SlotLeases
from tenure_scheduler.duties.due import DueWork
from tests.scheduler.world import World

TASK = "draw#1"


def fail(slot: SlotLeases, grant: Grant, *, delay_ms: int) -> None:
    slot.mark_started(grant)
    slot.retry(grant, error="no", error_type="No", delay_ms=delay_ms, in_place_ms=0, claim=False)


def test_a_retry_is_ready_when_its_time_has_come_by_the_stores_clock(world: World, leader: int) -> None:
    """G3."""
    due = DueWork(duties=world.store.duties)
    slot, grant = world.claim_task()
    fail(slot, grant, delay_ms=60_000)
    world.pass_ms(59_000)
    assert due.run_once(leader).dispatched == 0
    assert world.indexes("e", TASK) == {"due"}

    world.pass_ms(1_000)

    assert due.run_once(leader).dispatched == 1
    assert world.indexes("e", TASK) == {slot.holder.queue}
    assert world.claim(slot).attempt == 2


def test_a_route_that_was_named_too_early_stays_where_it_is(world: World, leader: int) -> None:
    """G3: the script that decides reads the clock again, whatever its caller believed."""
    slot, grant = world.claim_task()
    fail(slot, grant, delay_ms=60_000)

    assert world.store.duties.make_ready(leader, grant.route) is DueAnswer.NOT_DUE
    assert world.indexes("e", TASK) == {"due"}


def test_a_run_takes_one_page_and_says_that_there_is_more(world: World, leader: int) -> None:
    due = DueWork(duties=world.store.duties, limit=2)
    for n in range(3):
        fail(*world.claim_task(f"e{n}", session=f"agent{n}"), delay_ms=10)
    world.pass_ms(10)

    reports = [due.run_once(leader) for _ in range(2)]

    assert [(r.dispatched, r.more) for r in reports] == [(2, True), (1, False)]
