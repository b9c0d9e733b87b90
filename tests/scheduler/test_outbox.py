"""Events reach the provisioner at least once, and a slow or failing one holds nobody up."""

from __future__ import annotations

import json
import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from tenure.settings import Settings
from tenure.store.duties import NotLeader
from tenure_scheduler.contact import Contact
from tenure_scheduler.courier import Courier
from tenure_scheduler.duties.outbox import OutboxDelivery, OutboxReport, pause_after
from tenure_scheduler.leadership import Leadership
from tenure_scheduler.loop import Scheduler
from tenure_scheduler.provisioner import Accepted, Refused, provisioner_of
from tenure_scheduler.stopping import Stopping
from tests.posting import BODY, damage, kept, post, waiting
from tests.processes import Process, Site, is_alive
from tests.scheduler.hooks import Script, Web
from tests.scheduler.test_loop import Told
from tests.scheduler.world import World
from tests.waiting import wait_until

LONG = timedelta(seconds=60)
PAUSE_MS = 1000


class Delivering:
    """The duty of one scheduler, with its courier, run by the test."""

    def __init__(
        self,
        world: World,
        hook: str,
        *,
        timeout: timedelta = LONG,
        carried: int = 8,
        limit: int = 100,
        settings: Settings | None = None,
    ) -> None:
        self.courier = Courier(
            provisioner=provisioner_of(hook, timeout=timeout),
            namespace=world.store.namespace,
            wake=world.store.duties.nudge,
            limit=carried,
        )
        self.duty = OutboxDelivery(
            duties=world.store.duties, courier=self.courier, settings=settings or Settings(), limit=limit
        )

    def round(self, leader: int, *, deliveries: int = 1) -> OutboxReport:
        """Hand over, wait until so many have ended, and settle them."""
        self.duty.run_once(leader)
        self.until_finished(deliveries)
        return self.duty.run_once(leader)

    def until_finished(self, count: int = 1) -> None:
        wait_until(lambda: len(self.courier.finished()) == count, 10, f"{count} deliveries have ended")


Begin = Callable[..., Delivering]


@pytest.fixture
def begin(world: World) -> Iterator[Begin]:
    """Begins to deliver to a hook; what still runs when the test ends is killed."""
    with ExitStack() as stack:

        def start(hook: str, **options: Any) -> Delivering:
            one = Delivering(world, hook, **options)
            stack.enter_context(one.courier)
            return one

        yield start


@pytest.fixture
def script(tmp_path: Path) -> Script:
    """A provisioner that accepts everything."""
    return Script(tmp_path / "hook")


def failing(folder: Path) -> Script:
    """One that refuses until there is a file `mended`."""
    return Script(folder / "hook", "[ -e mended ] || { echo no machine left; exit 1; }")


def hanging(folder: Path) -> Script:
    return Script(folder / "hook", "echo $$ > pid; sleep 600")


# -- delivery ------------------------------------------------------------------------------------------------


def expected(world: World, event_id: str, told: dict[str, Any]) -> dict[str, Any]:
    known = {"id": event_id, "namespace": world.store.namespace, "instance": "alice", "execution": "e"}
    return {**known, "at": told["at"], **BODY}


def test_a_command_is_told_of_an_event_which_is_gone_then(
    world: World, leader: int, begin: Begin, script: Script
) -> None:
    event_id = post(world.store, instance="alice")
    report = begin(script.command).round(leader)
    assert (report.delivered, str(report)) == (1, "delivered=1")
    assert script.told == [expected(world, event_id, script.told[0])]
    assert (waiting(world.store), kept(world.store)) == ([], {})


def test_a_webhook_is_told_the_same(world: World, leader: int, begin: Begin) -> None:
    event_id = post(world.store, instance="alice")
    with Web() as web:
        assert begin(web.url).round(leader).delivered == 1
        [asked] = web.asked
    told = json.loads(asked.body)
    assert told == expected(world, event_id, told)
    assert kept(world.store) == {}


def test_what_has_ended_meanwhile_wants_no_machine_any_more(
    world: World, leader: int, begin: Begin, script: Script
) -> None:
    """A cancelled execution, while its provisioner was away: nobody should buy a machine for it."""
    for execution in ("e1", "e2"):
        world.start(execution)
    events = [post(world.store, execution=execution) for execution in ("e1", "e2")]
    world.store.executions.cancel("default", "e1", reason="test", nonce="n")

    assert begin(script.command).round(leader).delivered == 1
    assert script.ids == [events[1]]
    assert kept(world.store) == {}


def test_a_delivery_that_ends_wakes_the_scheduler(
    world: World, leader: int, begin: Begin, script: Script
) -> None:
    post(world.store)
    assert world.store.duties.wait_for_nudge(LONG)
    begin(script.command).duty.run_once(leader)
    assert world.store.duties.wait_for_nudge(LONG)


def test_a_failing_hook_is_told_again_later_in_spite_of_restarts(
    world: World, leader: int, begin: Begin, tmp_path: Path
) -> None:
    script, event_id = failing(tmp_path), post(world.store)
    for tries in range(3):
        assert begin(script.command).round(leader).deferred == 1
        world.pass_ms(PAUSE_MS * 2**tries)
    [event] = world.store.duties.due_events(limit=10)
    assert event.id == event_id
    assert getattr(event, "reason", None) == "the command ended with code 1: no machine left"

    (script.folder / "mended").touch()
    assert begin(script.command).round(leader).delivered == 1

    assert script.ids == [event_id] * 4
    assert len({str(told) for told in script.told}) == 1
    assert kept(world.store) == {}


def test_pauses_double_from_one_second_to_five_minutes_and_are_spread() -> None:
    for tries, whole in enumerate([1, 2, 4, 8, 16, 32, 64, 128, 256, 300, 300]):
        pauses = {pause_after(tries).total_seconds() for _ in range(50)}
        assert len(pauses) > 1
        assert whole / 2 <= min(pauses)
        assert max(pauses) <= whole
    assert pause_after(10**6) <= timedelta(minutes=5)


def test_what_nobody_accepts_is_dropped_once_it_is_older_than_retention(
    world: World, leader: int, begin: Begin, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    delivering = begin(failing(tmp_path).command)
    post(world.store)
    assert delivering.round(leader).deferred == 1
    world.pass_ms(8 * 86_400_000)
    assert delivering.round(leader).dropped == 1
    assert kept(world.store) == {}
    assert "dropped after 2 tries" in caplog.text


def test_without_a_provisioner_nothing_piles_up(world: World, leader: int) -> None:
    duty = OutboxDelivery(duties=world.store.duties, courier=None, settings=Settings(), limit=2)
    for _ in range(3):
        post(world.store)
    reports = [duty.run_once(leader) for _ in range(2)]
    assert [(report.dropped, report.more) for report in reports] == [(2, True), (1, False)]
    assert (waiting(world.store), kept(world.store)) == ([], {})


def test_only_so_many_are_under_way(world: World, leader: int, begin: Begin, tmp_path: Path) -> None:
    script = Script(tmp_path / "hook", "while [ ! -e open ]; do sleep 0.05; done")
    delivering = begin(script.command, carried=2)
    ids = {post(world.store) for _ in range(5)}
    assert [delivering.duty.run_once(leader).begun for _ in range(3)] == [2, 0, 0]
    (script.folder / "open").touch()
    for _ in range(2):
        delivering.until_finished(2)
        delivering.duty.run_once(leader)
    delivering.until_finished(1)
    delivering.duty.run_once(leader)
    assert (len(script.ids), set(script.ids)) == (5, ids)
    assert kept(world.store) == {}


# -- what cannot be read -------------------------------------------------------------------------------------


def test_events_that_cannot_be_read_stop_no_other(
    world: World, leader: int, begin: Begin, script: Script, caplog: pytest.LogCaptureFixture
) -> None:
    """G17"""
    bad = [post(world.store) for _ in range(2)]
    bad.append(post(world.store, text="[1]"))
    for event_id in bad[:2]:
        damage(world.store, event_id)
    good = post(world.store)
    delivering = begin(script.command, limit=3)
    report = delivering.duty.run_once(leader)
    assert (report.malformed, report.more) == (3, True)
    assert delivering.round(leader).delivered == 1
    assert script.ids == [good]
    assert sorted(kept(world.store)) == sorted(bad)
    assert all(event_id in caplog.text for event_id in bad)
    assert str(delivering.duty.run_once(leader)) == ""


def test_a_hook_with_a_bug_is_a_failed_delivery(world: World, leader: int) -> None:
    class Broken:
        def deliver(self, document: bytes) -> Accepted | Refused:
            raise ZeroDivisionError

        def close(self) -> None:
            pass

    courier = Courier(provisioner=Broken(), namespace="n", wake=world.store.duties.nudge)
    duty = OutboxDelivery(duties=world.store.duties, courier=courier, settings=Settings())
    post(world.store)
    duty.run_once(leader)
    wait_until(courier.finished, 10, "it has ended")
    assert duty.run_once(leader).deferred == 1


# -- who leads -----------------------------------------------------------------------------------------------


def test_a_leader_that_was_deposed_leaves_the_event_to_the_next_one(
    world: World, leader: int, begin: Begin, script: Script
) -> None:
    event_id = post(world.store)
    first, second = begin(script.command), begin(script.command)
    first.duty.run_once(leader)
    first.until_finished()
    world.store.duties.resign("test")
    with pytest.raises(NotLeader):
        first.duty.run_once(leader)

    assert second.round(world.lead("another")).delivered == 1
    assert script.ids == [event_id, event_id]

    # What it knows is of no harm, should it lead again.
    world.store.duties.resign("another")
    assert first.duty.run_once(world.lead()).delivered == 0
    assert script.ids == [event_id, event_id]


def test_an_outcome_that_could_not_be_noted_is_noted_later_without_another_delivery(
    world: World, leader: int, begin: Begin, script: Script
) -> None:
    post(world.store)
    delivering = begin(script.command)
    delivering.duty.run_once(leader)
    delivering.until_finished()
    world.store.duties.resign("test")
    with pytest.raises(NotLeader):
        delivering.duty.run_once(leader)
    assert delivering.duty.run_once(world.lead()).delivered == 1
    assert len(script.ids) == 1


def test_a_hook_that_hangs_delays_no_duty_and_no_leadership_and_is_stopped_at_its_timeout(
    world: World, begin: Begin, tmp_path: Path
) -> None:
    script = hanging(tmp_path)
    settings = replace(
        Settings(), tick=timedelta(milliseconds=50), leadership=timedelta(seconds=1), renewal=LONG / 60
    )
    delivering, other = begin(script.command, timeout=timedelta(seconds=2)), Told("other")
    stopping, contact = Stopping(), Contact(settings)
    scheduler = Scheduler(
        leadership=Leadership(duties=world.store.duties, owner="one", settings=settings, contact=contact),
        duties=[delivering.duty, other],
        settings=settings,
        wait_for_nudge=world.store.duties.wait_for_nudge,
        stopping=stopping,
    )
    thread = threading.Thread(target=scheduler.run)
    thread.start()
    try:
        event_id = post(world.store)
        wait_until(lambda: script.pid("pid"), 10, "the hook hangs")
        before = len(other.runs)
        wait_until(lambda: len(other.runs) >= before + 10, 2, "the other duty goes on meanwhile")
        assert is_alive(script.pid("pid"))
        wait_until(lambda: b"took more than 2 s" in kept(world.store)[event_id], 10, "it was stopped")
        assert not is_alive(script.pid("pid"))
        assert len(set(other.runs)) == 1, "the leadership was lost"
    finally:
        stopping.ask()
        thread.join(5)


# -- processes -----------------------------------------------------------------------------------------------


def scheduler(site: Site, name: str, hook: str | None = None, **environment: str) -> Process:
    option = [] if hook is None else ["--provisioner", hook]
    return site.run(name, "scheduler", "--name", name, *option, cgroup=None, **environment)


def test_of_two_schedulers_one_delivers(site: Site, script: Script) -> None:
    for name in ("one", "two"):
        scheduler(site, name, script.command)
    ids = [post(site.store) for _ in range(20)]
    site.until(lambda: kept(site.store) == {}, "every event is delivered")
    assert sorted(script.ids) == sorted(ids)
    assert waiting(site.store) == []


def test_killed_between_delivery_and_removal_it_is_delivered_again_with_its_id(
    site: Site, tmp_path: Path
) -> None:
    """The hook, who has just been told, kills the scheduler."""
    script = Script(tmp_path / "hook", "[ -e killed ] || { touch killed; kill -9 $PPID; }")
    first = scheduler(site, "first", script.command)
    event_id = post(site.store)
    assert first.wait() == -signal.SIGKILL
    assert waiting(site.store) == [event_id]
    scheduler(site, "second", script.command)
    site.until(lambda: kept(site.store) == {}, "the event is delivered")
    assert script.ids == [event_id, event_id]
    assert len({str(told) for told in script.told}) == 1


def test_the_hook_and_its_timeout_may_come_from_the_environment(site: Site, tmp_path: Path) -> None:
    script = Script(tmp_path / "hook", "[ -e slow ] || { touch slow; sleep 600; }")
    scheduler(site, "one", TENURE_PROVISIONER=script.command, TENURE_HOOK="0.5")
    event_id = post(site.store)
    site.until(lambda: kept(site.store) == {}, "the event is delivered the second time")
    assert script.ids == [event_id, event_id]


def test_a_scheduler_without_a_hook_empties_the_outbox(site: Site) -> None:
    scheduler(site, "one")
    post(site.store)
    site.until(lambda: kept(site.store) == {}, "the event is dropped")


def test_a_slow_hook_holds_no_stop_up_and_ends_with_it(site: Site, tmp_path: Path) -> None:
    script = hanging(tmp_path)
    one = scheduler(site, "one", script.command)
    event_id = post(site.store)
    site.until(lambda: script.pid("pid"), "the hook hangs")
    one.signal(signal.SIGTERM)
    assert one.wait(5) == 0
    wait_until(lambda: not is_alive(script.pid("pid")), 5, "the hook is gone")
    assert waiting(site.store) == [event_id]
    assert "Traceback" not in one.tail()


@pytest.mark.parametrize("hook", ["no-such-command-anywhere", "http://host:port/", "'", ""])
def test_a_hook_that_cannot_be_one_is_a_usage_error(site: Site, hook: str) -> None:
    process = scheduler(site, "one", hook)
    assert process.wait() == 2
    assert process.tail().startswith("Error: provisioner")
