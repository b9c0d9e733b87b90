"""The loop on a real store, with duties that only tell what they were asked."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from datetime import timedelta
from typing import Self

import pytest

from tenure.errors import StoreUnreachable
from tenure.settings import Settings
from tenure.store.duties import NotLeader
from tenure_scheduler.contact import Contact
from tenure_scheduler.duties.report import Report
from tenure_scheduler.leadership import Leadership
from tenure_scheduler.loop import Scheduler
from tenure_scheduler.stopping import Stopping
from tests.scheduler.world import World
from tests.waiting import wait_until

TICK = timedelta(milliseconds=50)


@dataclass
class Told:
    """A duty that counts its runs, and does what the test says in each."""

    name: str
    is_nudged: bool = False
    act: Callable[[int], Report] = lambda _leader: Report()
    runs: list[int] = field(default_factory=list)

    def run_once(self, leader: int) -> Report:
        self.runs.append(leader)
        return self.act(leader)


class Running:
    """A scheduler in a thread, stopped when the block ends."""

    def __init__(
        self, world: World, duties: Sequence[Told], *, owner: str = "one", tick: timedelta = TICK
    ) -> None:
        settings = replace(Settings(), tick=tick)
        self.leadership = Leadership(
            duties=world.store.duties, owner=owner, settings=settings, contact=Contact(settings)
        )
        self.stopping = Stopping()
        self.scheduler = Scheduler(
            leadership=self.leadership,
            duties=duties,
            settings=settings,
            wait_for_nudge=world.store.duties.wait_for_nudge,
            stopping=self.stopping,
        )
        self.thread = threading.Thread(target=self.scheduler.run)

    def __enter__(self) -> Self:
        self.thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.stopping.ask()
        self.thread.join(5)
        assert not self.thread.is_alive()


def fails_with(error: Exception) -> Callable[[int], Report]:
    def act(_leader: int) -> Report:
        raise error

    return act


def test_every_duty_runs_once_per_tick(world: World) -> None:
    duties = [Told("a"), Told("b")]
    with Running(world, duties):
        wait_until(lambda: len(duties[1].runs) >= 5, 5, "five rounds")

    assert abs(len(duties[0].runs) - len(duties[1].runs)) <= 1


def test_a_failing_duty_stops_no_other(world: World, caplog: pytest.LogCaptureFixture) -> None:
    bad, good = Told("bad", act=fails_with(ZeroDivisionError("a bug"))), Told("good")
    with Running(world, [bad, good]):
        wait_until(lambda: len(good.runs) >= 3, 5, "three rounds of the other duty")

    assert len(bad.runs) >= 3
    failures = [record for record in caplog.records if record.message.startswith("bad failed")]
    assert failures
    assert failures[0].exc_info


@pytest.mark.parametrize("error", [StoreUnreachable("away"), NotLeader()], ids=["unreachable", "not leader"])
def test_after_a_doubt_nothing_is_done_without_asking_who_leads(
    world: World, error: Exception, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    won: list[int] = []

    def note(_leader: int) -> Report:
        won.append(sum(record.message.startswith("scheduler one leads") for record in caplog.records))
        return Report()

    first, second = Told("first", act=fails_with(error)), Told("second", act=note)
    with Running(world, [first, second]):
        wait_until(lambda: won != [], 5, "the next round")

    assert won[0] == 2, "it went on without asking whether it still leads"


def test_who_follows_does_nothing_and_who_resigns_hands_over(world: World) -> None:
    first, second = Told("duty"), Told("duty")
    with Running(world, [second], owner="two") as standby:
        wait_until(lambda: second.runs != [], 5, "the only one leads")
        with Running(world, [first], owner="one"):
            wait_until(lambda: len(second.runs) >= 5, 5, "the leader goes on")
            assert first.runs == []
            standby.stopping.ask()
            wait_until(lambda: first.runs != [], 1, "the standby leads at once")

    assert first.runs[0] > second.runs[-1]


def test_a_nudge_wakes_who_listens_to_it(world: World) -> None:
    nudged, other = Told("nudged", is_nudged=True), Told("other")
    with Running(world, [nudged, other], tick=timedelta(seconds=60)):
        wait_until(lambda: other.runs != [], 5, "the first round")
        world.register("agent")
        wait_until(lambda: len(nudged.runs) == 2, 5, "the nudged duty runs again")

    assert len(other.runs) == 1


def test_a_duty_with_more_to_do_runs_again_without_waiting(world: World) -> None:
    busy = Told("busy")
    busy.act = lambda _leader: Report(more=len(busy.runs) < 10)
    with Running(world, [busy], tick=timedelta(seconds=60)):
        wait_until(lambda: len(busy.runs) == 10, 5, "ten runs")


def test_a_long_round_renews_the_leadership_between_duties(world: World) -> None:
    """A round of slow duties outlasts the lease; no standby may lead meanwhile."""

    def take_long(_leader: int) -> Report:
        # Time passes for the store and for the loop, which measures its own.
        running.scheduler._attended_at -= 2
        world.pass_ms(2000)
        return Report()

    duties = [Told(f"slow {n}", act=take_long) for n in range(4)]
    running = Running(world, duties, tick=timedelta(seconds=60))
    with running:
        wait_until(lambda: duties[-1].runs != [], 5, "the whole round")

    assert len({token for duty in duties for token in duty.runs}) == 1


def test_a_stop_ends_the_wait_for_a_nudge(world: World) -> None:
    duty = Told("duty")
    with Running(world, [duty], tick=timedelta(seconds=60)) as running:
        wait_until(lambda: duty.runs != [], 5, "the first round")
        running.stopping.ask()
        wait_until(lambda: not running.thread.is_alive(), 1, "the loop ends")
