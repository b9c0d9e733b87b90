"""A server that is full, away, slow, hanging, or has forgotten its scripts: nothing ends, nothing runs twice.

Every test has real processes on a real server of its own.
"""

from __future__ import annotations

import os
import signal
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tenure import Handle
from tenure.errors import StoreFull
from tests.jobs import work
from tests.processes import Process, Site, is_alive
from tests.servers import RestartableServer
from tests.waiting import wait_until

LIMIT = 60
LEASE_SECONDS = 2.0
ITEMS = 300


@pytest.fixture
def server(tmp_path: Path) -> Iterator[RestartableServer]:
    with RestartableServer(tmp_path / "server", "--enable-debug-command", "local") as one:
        yield one


@pytest.fixture
def place(server: RestartableServer, tmp_path: Path) -> Iterator[Site]:
    with site_on(server, tmp_path) as site:
        yield site


def site_on(server: RestartableServer, tmp_path: Path, **settings: str) -> Site:
    folder = tmp_path / "site"
    folder.mkdir()
    return Site(server.url, "outage", folder, settings)


def ends(site: Site) -> Counter[str]:
    return Counter(entry["key"] for entry in site.entries("end"))


def leases(site: Site) -> dict[bytes, float]:
    return dict(site.raw.zrange(site.store.keys("leased"), 0, -1, withscores=True))


def now_ms(site: Site) -> int:
    seconds, microseconds = site.raw.time()
    return int(seconds) * 1000 + int(microseconds) // 1000


def assert_ran_once(site: Site, *handles: Handle) -> None:
    """Nothing was lost on the way, and nothing ran twice."""
    assert [handle.snapshot().attempts for handle in handles] == [[] for _ in handles]
    assert set(ends(site).values()) == {1}


# -- full ----------------------------------------------------------------------------------------------------


def fill(site: Site) -> None:
    """Leave room for a little more, wait until that is used up, and make sure of it."""
    used = int(site.raw.info("memory")["used_memory"])
    site.raw.config_set("maxmemory", used + 20_000)
    site.until(lambda: any("waits: the server's memory" in p.tail() for p in site.processes), "a slot waits")
    site.raw.config_set("maxmemory", "1mb")


def test_a_full_server_ends_no_slot_and_no_lease_and_work_goes_on_when_there_is_room(place: Site) -> None:
    place.scheduler()
    agent = place.worker(slots=2)
    busy = place.client.start(work.patience, "a")
    place.until(lambda: place.entries("start", task="patient"), "the patient task runs")
    mapped = place.client.start(work.squares, ITEMS)
    place.until(lambda: len(ends(place)) > 10, "some items are done")
    slots = agent.children()

    fill(place)
    with pytest.raises(StoreFull, match=r"memory limit is reached.*make room or raise maxmemory"):
        place.client.start(work.chain, 1)
    # A result that comes while it is full waits, too.
    place.open_gate("a")
    place.until(lambda: place.entries("end", task="patient"), "the patient task has ended")
    before = leases(place)
    time.sleep(1.5 * LEASE_SECONDS)

    assert before.keys() == leases(place).keys()
    assert min(leases(place).values()) > now_ms(place)
    assert agent.children() == slots
    assert place.is_ready("one")
    assert not mapped.snapshot().is_terminal
    with pytest.raises(StoreFull):
        place.client.start(work.chain, 1)

    place.raw.config_set("maxmemory", "0")
    assert mapped.result(LIMIT) == sum(n * n for n in range(ITEMS))
    assert busy.result(LIMIT) == [2, 1, 3]
    assert agent.children() == slots
    assert_ran_once(place, busy, mapped)
    assert [listed.recipe for listed in place.client.list()] == ["squares", "patience"]


def test_a_slot_that_dies_on_a_full_server_is_replaced_and_its_work_taken_up_when_there_is_room(
    place: Site,
) -> None:
    place.scheduler()
    agent = place.worker(slots=1)
    handle = place.client.start(work.before_during_after, "never")
    place.until(lambda: place.entries("start", task="gated"), "the gated task runs")
    (first,) = place.entries("start", task="gated")
    place.raw.config_set("maxmemory", "1mb")
    os.kill(first["pid"], signal.SIGKILL)
    place.until(lambda: handle.snapshot().attempts, "the death is on record")
    place.until(lambda: agent.children() not in ([], [first["pid"]]), "another slot has begun")
    place.raw.config_set("maxmemory", "0")
    assert handle.result(LIMIT) == [2, 2, 3]


def test_a_worker_can_leave_a_full_server(place: Site) -> None:
    """The drain budget is what a slot that waits for room is given, and its work goes back."""
    agent = place.worker(slots=1, TENURE_DRAIN="0.5")
    handle = place.client.start(work.patience, "a")
    place.until(lambda: place.entries("start", task="patient"), "the patient task runs")
    place.raw.config_set("maxmemory", "1mb")
    place.open_gate("a")
    place.until(lambda: place.entries("end", task="patient"), "the patient task has ended")
    slots = agent.children()
    agent.signal(signal.SIGTERM)
    assert agent.wait() == 0, agent.tail()
    assert not any(is_alive(slot) for slot in slots)
    assert leases(place) == {}
    place.raw.config_set("maxmemory", "0")
    place.scheduler()
    place.worker(name="two")
    assert handle.result(LIMIT) == [2, 2, 3]


# -- down ----------------------------------------------------------------------------------------------------


class Load:
    """A chain, a map, and a task that ends while the server is away."""

    def __init__(self, site: Site) -> None:
        self._site = site
        site.scheduler()
        self.agent: Process = site.worker(slots=2)
        self.patient = site.client.start(work.patience, "a")
        site.until(lambda: site.entries("start", task="patient"), "the patient task runs")
        self.mapped = site.client.start(work.squares, ITEMS)
        site.until(lambda: len(ends(site)) > 10, "some items are done")

    def finish_the_patient(self) -> None:
        self._site.open_gate("a")
        self._site.until(lambda: self._site.entries("end", task="patient"), "the patient task has ended")

    def assert_done(self, *, patient_attempt: int = 1) -> None:
        assert self.mapped.result(LIMIT) == sum(n * n for n in range(ITEMS))
        assert self.patient.result(LIMIT) == [2, patient_attempt, 3]

    def recorded(self) -> set[str]:
        """Keys of what was recorded as completed."""
        return {
            f"default:{handle.id}:{capability}"
            for handle in (self.patient, self.mapped)
            for capability, record in handle.snapshot().records.items()
            if record["status"] == "completed"
        }


def outlive(site: Site, server: RestartableServer, seconds: float) -> None:
    load = Load(site)
    slots = load.agent.children()
    server.kill()
    load.finish_the_patient()
    server.wait_down(seconds)
    server.start()
    load.assert_done()
    assert load.agent.children() == slots
    assert_ran_once(site, load.patient, load.mapped)


def test_a_server_that_is_away_for_several_leases_costs_no_attempt(
    server: RestartableServer, place: Site
) -> None:
    outlive(place, server, 4 * LEASE_SECONDS)


@pytest.mark.chaos
def test_a_server_that_is_away_for_a_minute_costs_no_attempt(
    server: RestartableServer, tmp_path: Path
) -> None:
    with site_on(server, tmp_path, TENURE_RESEND="90") as site:
        outlive(site, server, 60)


def test_beyond_the_patience_of_slots_they_begin_again_and_nothing_recorded_runs_twice(
    server: RestartableServer, tmp_path: Path
) -> None:
    """G16: what was in hand may run again, with an attempt on record; what was recorded may not."""
    with site_on(server, tmp_path, TENURE_RESEND="1") as site:
        load = Load(site)
        before, slots = load.recorded(), load.agent.children()
        server.kill()
        load.finish_the_patient()
        site.until(lambda: not any(map(is_alive, slots)), "the slots have given up")
        server.wait_down(2 * LEASE_SECONDS)
        server.start()
        load.assert_done(patient_attempt=2)
        runs = ends(site)
        assert [key for key in before if runs[key] > 1] == []
        lost = {
            f"default:{handle.id}:{attempt['capability']}"
            for handle in (load.patient, load.mapped)
            for attempt in handle.snapshot().attempts
        }
        assert {key for key, count in runs.items() if count > 1} <= lost


# -- slow and hanging ----------------------------------------------------------------------------------------


def outlive_hanging(site: Site, server: RestartableServer, seconds: float) -> None:
    site.scheduler("standby")
    load = Load(site)
    slots = load.agent.children()
    for _ in range(2):
        server.hang(seconds)
        time.sleep(0.5 * LEASE_SECONDS)
    load.finish_the_patient()
    load.assert_done()
    assert load.agent.children() == slots
    assert_ran_once(site, load.patient, load.mapped)


def test_a_server_that_hangs_for_longer_than_a_lease_costs_no_attempt(
    server: RestartableServer, place: Site
) -> None:
    outlive_hanging(place, server, 1.5 * LEASE_SECONDS)


@pytest.mark.chaos
@pytest.mark.parametrize("seconds", [6.0, 11.0, 11.7, 12.4])
def test_a_server_that_hangs_until_all_have_given_up_on_their_requests_costs_no_attempt(
    server: RestartableServer, tmp_path: Path, seconds: float
) -> None:
    """The scheduler is heard before the agent, whose next renewal is due only after its pause."""
    settings = {"TENURE_LEASE": "4", "TENURE_RENEWAL": "2.5", "TENURE_RESEND": "30"}
    with site_on(server, tmp_path, **settings) as site:
        outlive_hanging(site, server, seconds)


def test_what_died_while_the_server_hung_is_still_taken_over(server: RestartableServer, place: Site) -> None:
    place.scheduler()
    doomed = place.worker(name="doomed")
    handle = place.client.start(work.before_during_after, "never")
    place.until(lambda: place.entries("start", task="gated"), "the gated task runs")
    doomed.signal(signal.SIGKILL)
    server.hang(1.5 * LEASE_SECONDS)
    place.worker(name="other")
    assert handle.result(LIMIT) == [2, 2, 3]


def test_a_slow_server_costs_no_attempt(place: Site) -> None:
    load = Load(place)
    client: Any = place.raw
    for _ in range(4):
        client.client_pause(int(0.6 * LEASE_SECONDS * 1000))
        client.execute_command("DEBUG", "SLEEP", "0.3")
    load.finish_the_patient()
    load.assert_done()
    assert_ran_once(place, load.patient, load.mapped)


# -- without its scripts -------------------------------------------------------------------------------------


def test_a_server_may_forget_its_scripts_at_any_time(server: RestartableServer, place: Site) -> None:
    load = Load(place)
    for _ in range(50):
        place.raw.script_flush()
        time.sleep(0.01)
    server.kill()
    server.start()
    wait_until(place.raw.script_flush, 10, "the server answers")
    load.finish_the_patient()
    load.assert_done()
    assert_ran_once(place, load.patient, load.mapped)
