from __future__ import annotations

import pytest

from tenure_scheduler.duties.tickets import TicketTopUp
from tests.scheduler.world import World


@pytest.fixture
def top_up(world: World) -> TicketTopUp:
    return TicketTopUp(duties=world.store.duties)


def lose_tickets(world: World, queue: str) -> None:
    """What RQ's loss of a queue looks like."""
    world.client.delete(world.store.keys("tickets", queue))


def test_a_queue_that_rq_has_emptied_is_restored(world: World, top_up: TicketTopUp, leader: int) -> None:
    """G10: nothing depends on RQ keeping a job."""
    queue = world.register("agent")
    for n in range(3):
        world.start(f"e{n}")
    lose_tickets(world, queue)

    reports = [top_up.run_once(leader).written for _ in range(3)]

    assert reports == [0, 3, 0]
    assert len(world.tickets(queue)) == 3


def test_one_sweep_alone_writes_nothing(world: World, top_up: TicketTopUp, leader: int) -> None:
    """A slot has taken the ticket off its list a moment before it claims the route."""
    queue = world.register("agent")
    world.start("e")
    lose_tickets(world, queue)
    top_up.run_once(leader)
    world.claim(world.slot("agent", queue))

    assert top_up.run_once(leader).written == 0
    assert world.tickets(queue) == []


def test_a_queue_short_of_many_gets_them_by_and_by(world: World, leader: int) -> None:
    top_up = TicketTopUp(duties=world.store.duties, limit=2)
    queue = world.register("agent")
    for n in range(5):
        world.start(f"e{n}")
    lose_tickets(world, queue)

    assert [top_up.run_once(leader).written for _ in range(5)] == [0, 2, 2, 1, 0]


def test_a_new_ticket_carries_ids_and_a_title_only(world: World, top_up: TicketTopUp, leader: int) -> None:
    """G18."""
    queue = world.register("agent")
    world.start("e")
    (original,) = world.tickets(queue)
    lose_tickets(world, queue)
    top_up.run_once(leader)
    top_up.run_once(leader)

    (renewed,) = world.tickets(queue)

    assert renewed != original
    job = world.client.hgetall(world.store.keys("ticket", renewed))
    assert job[b"description"] == b"book attempt 1"
    assert job[b"data"] == world.client.hget(world.store.keys("ticket", original), "data")


def test_an_entry_that_is_not_true_any_more_gets_no_ticket(
    world: World, top_up: TicketTopUp, leader: int
) -> None:
    queue = world.register("agent")
    world.start("e")
    world.claim(world.slot("agent", queue))
    world.client.zadd(world.store.keys("waiting", queue), {"default/e/recipe": 1})
    lose_tickets(world, queue)
    top_up.run_once(leader)
    top_up.run_once(leader)

    assert world.tickets(queue) == []
    assert world.indexes("e") == {"leased"}
