"""After a silence of the store nobody is judged by the clock, until all had time to renew."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta

import pytest

from tenure.settings import Settings
from tenure_scheduler.contact import Contact
from tenure_scheduler.duties.sessions import SessionExpiry
from tenure_scheduler.duties.takeover import TakeoverScan
from tenure_scheduler.leadership import Leadership
from tests.scheduler.world import World

SETTINGS = Settings(lease=timedelta(seconds=15), renewal=timedelta(seconds=5), tick=timedelta(seconds=1))


class Clock:
    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def contact(clock: Clock) -> Contact:
    return Contact(SETTINGS, clock=clock)


def test_a_scheduler_that_has_just_begun_may_judge(contact: Contact) -> None:
    contact.heard()
    assert contact.may_judge()


@pytest.mark.parametrize("silence", [5.1, 60.0])
def test_a_silence_in_which_a_lease_could_lapse_is_noticed(
    contact: Contact, clock: Clock, silence: float
) -> None:
    contact.heard()
    clock.now += silence
    contact.heard()
    assert not contact.may_judge()


@pytest.mark.parametrize("silence", [1.0, 5.0])
def test_a_short_silence_is_none(contact: Contact, clock: Clock, silence: float) -> None:
    contact.heard()
    clock.now += silence
    contact.heard()
    assert contact.may_judge()


def test_after_a_lease_without_another_silence_it_judges_again(contact: Contact, clock: Clock) -> None:
    contact.heard()
    clock.now += 20
    contact.heard()
    for _ in range(14):
        clock.now += 1
        contact.heard()
        assert not contact.may_judge()
    clock.now += 1
    contact.heard()
    assert contact.may_judge()


def leadership(world: World, contact: Contact) -> Callable[[], object]:
    return Leadership(duties=world.store.duties, owner="test", settings=SETTINGS, contact=contact).attend


def takeover(world: World, contact: Contact) -> Callable[[], object]:
    return lambda: TakeoverScan(duties=world.store.duties, contact=contact).run_once(world.lead())


def expiry(world: World, contact: Contact) -> Callable[[], object]:
    return lambda: SessionExpiry(duties=world.store.duties, contact=contact).run_once(world.lead())


@pytest.mark.parametrize("listens", [leadership, takeover, expiry])
def test_whoever_hears_first_keeps_all_from_judging(
    world: World, contact: Contact, clock: Clock, listens: Callable[[World, Contact], Callable[[], object]]
) -> None:
    """Whichever call the store hung at, what lapsed meanwhile is neither taken over nor retired."""
    world.claim_task()
    contact.heard()
    world.pass_lease()
    clock.now += 15
    listens(world, contact)()

    scan = TakeoverScan(duties=world.store.duties, contact=contact)
    sessions = SessionExpiry(duties=world.store.duties, contact=contact)
    assert (scan.run_once(world.lead()).taken, sessions.run_once(world.lead()).retired) == (0, 0)
    for _ in range(15):
        clock.now += 1
        scan.run_once(world.lead())
    assert world.indexes("e", "draw#1") != {"leased"}
