"""Agents, schedulers and servers die or stop; leases lapse and the work goes on elsewhere."""

from __future__ import annotations

import os
import signal
from collections import Counter
from pathlib import Path

from tests.jobs import work
from tests.processes import Site, is_alive

LIMIT = 60


def started(site: Site, task: str) -> Counter[str]:
    return Counter(entry["key"] for entry in site.entries("start", task=task))


def requests_answered(site: Site) -> int:
    """How many requests all slot lives have had answered."""
    lives = site.raw.scan_iter(match=f"{site.namespace}:life:*", _type="hash")
    return sum(int(site.raw.hget(life, "request") or 0) for life in lives)


def test_when_an_agent_dies_with_its_slots_the_lease_lapses_and_the_work_goes_on_elsewhere(
    site: Site,
) -> None:
    """G3, G5"""
    site.scheduler()
    doomed = site.worker(name="doomed")
    handle = site.client.start(work.before_during_after, "a")
    site.until(lambda: site.entries("start", task="gated"), "the gated task has started")
    (first,) = site.entries("start", task="gated")
    doomed.signal(signal.SIGKILL)
    site.until(lambda: not is_alive(first["pid"]), "the slot is gone with its agent")

    site.worker(name="other")

    assert handle.result(LIMIT) == [2, 2, 3]
    assert started(site, "quick") == {f"default:{handle.id}:0:quick": 1, f"default:{handle.id}:2:quick": 1}
    (lost,) = handle.snapshot().attempts
    assert lost["session"] == "doomed"
    assert "lease" in lost["cause"]


def test_a_slot_that_was_stopped_past_its_lease_changes_nothing_when_it_goes_on(site: Site) -> None:
    """G2: the kernel says that it is stopped, so its agent lets the lease lapse."""
    site.scheduler()
    site.worker(name="one")
    handle = site.client.start(work.before_during_after, "a")
    site.until(lambda: site.entries("start", task="gated"), "the gated task has started")
    (first,) = site.entries("start", task="gated")

    os.kill(first["pid"], signal.SIGSTOP)
    site.worker(name="two")
    assert handle.result(LIMIT) == [2, 2, 3]
    before = handle.snapshot()

    site.open_gate("a")
    os.kill(first["pid"], signal.SIGCONT)
    site.until(
        lambda: not is_alive(first["pid"]) or len(site.entries("end", pid=first["pid"], task="gated")) == 1,
        "the stopped slot has gone on",
    )
    assert site.client.start(work.chain, 2).result(LIMIT) == 2
    assert handle.snapshot() == before


def test_an_agent_and_slot_stopped_past_the_lease_change_nothing_when_they_go_on(site: Site) -> None:
    """G2: the late commit is refused with LeaseLost."""
    site.scheduler()
    agent = site.worker(name="one")
    handle = site.client.start(work.before_during_after, "a")
    site.until(lambda: site.entries("start", task="gated"), "the gated task has started")
    (first,) = site.entries("start", task="gated")

    agent.signal(signal.SIGSTOP)
    os.kill(first["pid"], signal.SIGSTOP)
    site.worker(name="two")
    assert handle.result(LIMIT) == [2, 2, 3]
    before = handle.snapshot()

    site.open_gate("a")
    asked = requests_answered(site)
    os.kill(first["pid"], signal.SIGCONT)
    site.until(lambda: requests_answered(site) > asked, "the late commit has been answered")
    agent.signal(signal.SIGCONT)
    site.until(lambda: "is lost" in agent.tail(), "the slot's log says that its lease is lost")

    assert handle.snapshot() == before
    site.until(lambda: site.is_ready("one"), "the agent is ready again")


def test_a_standby_scheduler_leads_when_the_leader_is_killed(site: Site) -> None:
    leader = site.scheduler("leader")
    site.until(lambda: site.raw.hget(site.store.keys("leader"), "owner"), "somebody leads")
    site.scheduler("standby")
    doomed = site.worker(name="doomed")
    handle = site.client.start(work.before_during_after, "a")
    site.until(lambda: site.entries("start", task="gated"), "the gated task has started")

    leader.signal(signal.SIGKILL)
    doomed.signal(signal.SIGKILL)
    site.worker(name="other")

    assert handle.result(LIMIT) == [2, 2, 3]


def test_every_execution_finishes_over_an_outage_longer_than_a_lease(tmp_path: Path) -> None:
    """The server is killed -9 in mid-run and comes back on its append-only file. Live leases are kept, and
    nothing that had completed runs again."""
    from tests.servers import RestartableServer  # noqa: PLC0415  # only here

    with RestartableServer(tmp_path / "server") as server:
        folder = tmp_path / "site"
        folder.mkdir()
        with Site(server.url, "outage", folder) as site:
            site.scheduler()
            site.worker(name="one", slots=2)
            handles = [site.client.start(work.patience, "a") for _ in range(2)]
            queued = [site.client.start(work.chain, 5) for _ in range(3)]
            site.until(lambda: len(site.entries("start", task="patient")) == 2, "both patient tasks run")
            done_before = {e["key"] for e in site.entries("end", task="quick")}

            server.kill()
            site.open_gate("a")
            site.until(
                lambda: len(site.entries("end", task="patient")) == 2, "the tasks end while it is down"
            )
            server.wait_down(3.0)
            server.start()

            for handle in handles:
                assert handle.result(LIMIT) == [2, 1, 3]
            for handle in queued:
                assert handle.result(LIMIT) == 5
            runs = Counter(e["key"] for e in site.entries("start"))
            assert all(runs[key] == 1 for key in done_before)
            assert all(runs[f"default:{h.id}:1:patient"] == 1 for h in handles)
