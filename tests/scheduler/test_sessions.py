from __future__ import annotations

import pytest

from tenure.settings import Settings
from tenure_scheduler.contact import Contact
from tenure_scheduler.duties.placement import ParkedWork
from tenure_scheduler.duties.sessions import SessionExpiry
from tests.scheduler.world import World


@pytest.fixture
def expiry(world: World) -> SessionExpiry:
    return SessionExpiry(duties=world.store.duties, contact=Contact(Settings()))


def test_a_session_that_does_not_renew_is_retired(world: World, expiry: SessionExpiry, leader: int) -> None:
    """G3: by the store's clock."""
    queue = world.register("agent")
    world.pass_ms(14_900)
    assert expiry.run_once(leader).retired == 0
    revision = world.store.sessions.revision()

    world.pass_ms(101)

    assert expiry.run_once(leader).retired == 1
    assert world.store.sessions.revision() > revision
    assert world.store.sessions.renew("agent", 1, [], lease_ms=1000) is None
    assert [q.sessions for q in world.store.sessions.view().queues if q.name == queue] == [0]
    assert world.store.sessions.list() == []


def test_a_session_that_renews_stays(world: World, expiry: SessionExpiry, leader: int) -> None:
    world.register("agent")
    world.pass_ms(10_000)
    world.renew("agent")
    world.pass_ms(10_000)

    assert expiry.run_once(leader).retired == 0


def test_no_session_is_retired_for_one_lease_after_a_restart(
    world: World, expiry: SessionExpiry, leader: int
) -> None:
    world.register("agent")
    world.pass_lease()
    world.restart_server()
    world.lead()

    report = expiry.run_once(leader)

    assert (report.retired, report.grace) == (0, True)


def test_the_idle_slots_of_a_retired_session_draw_no_work(
    world: World, expiry: SessionExpiry, leader: int
) -> None:
    queue = world.register("gone")
    world.register("stays")
    for session in ("gone", "stays"):
        assert world.slot(session, queue).claim() is None
    world.pass_lease()
    world.renew("stays")

    expiry.run_once(leader)

    assert [q.idle for q in world.store.sessions.view().queues] == [1]


def test_what_waits_in_the_queue_of_a_session_that_lapsed_returns_to_placement(
    world: World, expiry: SessionExpiry, leader: int
) -> None:
    world.register("small")
    world.start("e")
    other = world.register("large", queue="large")
    world.pass_lease()
    world.renew("large")
    placement = ParkedWork(
        duties=world.store.duties, executions=world.store.executions, placement=world.store.placement
    )

    expiry.run_once(leader)
    placement.run_once(leader)

    assert world.indexes("e") == {other}
