from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta

import pytest

from tenure.settings import Settings
from tenure.store.duties import Following, Leading, NotLeader
from tenure_scheduler.contact import Contact
from tenure_scheduler.leadership import Leadership
from tests.scheduler.world import World


@pytest.fixture
def first(world: World) -> Leadership:
    return Leadership(
        duties=world.store.duties, owner="first", settings=Settings(), contact=Contact(Settings())
    )


@pytest.fixture
def second(world: World) -> Leadership:
    return Leadership(
        duties=world.store.duties, owner="second", settings=Settings(), contact=Contact(Settings())
    )


def token_of(leadership: Leadership) -> int:
    standing = leadership.attend()
    assert isinstance(standing, Leading)
    return standing.token


def test_one_leads_and_the_other_learns_how_long_it_may_take(first: Leadership, second: Leadership) -> None:
    assert isinstance(first.attend(), Leading)

    standing = second.attend()

    assert isinstance(standing, Following)
    assert timedelta() < standing.wait <= Settings().leadership


def test_a_leader_renews_under_the_same_token(world: World, first: Leadership, second: Leadership) -> None:
    token = token_of(first)
    world.pass_ms(4000)
    assert token_of(first) == token
    world.pass_ms(4000)

    assert isinstance(second.attend(), Following)


def test_a_leader_whose_reply_was_lost_leads_all_the_same(world: World, first: Leadership) -> None:
    """G16: a resend is harmless; without it the store would be leaderless for a lease."""
    token = token_of(first)

    again = Leadership(
        duties=world.store.duties, owner="first", settings=Settings(), contact=Contact(Settings())
    )

    assert token_of(again) == token


def test_a_standby_leads_once_the_lease_has_lapsed_by_the_stores_clock(
    world: World, first: Leadership, second: Leadership
) -> None:
    """G3."""
    token = token_of(first)
    world.pass_ms(5001)

    assert token_of(second) > token


def test_a_standby_leads_at_once_when_the_leader_resigns(first: Leadership, second: Leadership) -> None:
    token = token_of(first)

    first.resign()

    assert token_of(second) > token


def test_who_does_not_lead_cannot_resign_for_the_leader(first: Leadership, second: Leadership) -> None:
    first.attend()

    second.resign()

    assert isinstance(second.attend(), Following)


def test_a_paused_leader_follows_when_it_is_back(world: World, first: Leadership, second: Leadership) -> None:
    first.attend()
    world.pass_ms(5001)
    second.attend()

    assert isinstance(first.attend(), Following)


@pytest.mark.parametrize("how", ["superseded", "resigned"])
def test_the_writes_of_a_stale_leader_are_refused(
    world: World, first: Leadership, second: Leadership, how: str
) -> None:
    """G2: every duty's write carries the leader's token."""
    queue = world.register("agent")
    world.start("e")
    token = token_of(first)
    if how == "resigned":
        first.resign()
    else:
        world.pass_ms(5001)
        second.attend()
    duties, route = world.store.duties, "default/e/recipe"
    before = world.record("e")

    writes: list[Callable[[], object]] = [
        lambda: duties.take_over(token, route, cause=""),
        lambda: duties.make_ready(token, route),
        lambda: duties.place(token, route, [], registry=1),
        lambda: duties.evict(token, queue, limit=1),
        lambda: duties.top_up(token, queue, limit=1),
        lambda: duties.repair(token, "default/e", lease=timedelta(seconds=1)),
        lambda: duties.expire_session(token, "agent"),
    ]
    for write in writes:
        with pytest.raises(NotLeader):
            write()
    assert world.record("e") == before


def test_nobody_takes_the_leadership_over_for_one_lease_after_a_restart(
    world: World, first: Leadership, second: Leadership
) -> None:
    first.attend()
    world.pass_ms(5001)
    world.restart_server()

    assert isinstance(second.attend(), Following)
    world.pass_ms(5001)
    assert isinstance(second.attend(), Leading)


def test_the_leader_leads_on_after_a_restart(world: World, first: Leadership) -> None:
    token = token_of(first)
    world.restart_server()

    assert token_of(first) == token
