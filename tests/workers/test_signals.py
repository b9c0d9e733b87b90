"""SIGTERM and Ctrl-C: exit 0, nothing runs again, no process and no lease is left."""

from __future__ import annotations

import signal
from collections import Counter

import pytest

from tests.jobs import work
from tests.processes import Site, is_alive

LIMIT = 30


def leases(site: Site) -> list[bytes]:
    return list(site.raw.zrange(site.store.keys("leased"), 0, -1))


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_an_idle_worker_ends_at_once_with_exit_0(site: Site, number: int) -> None:
    agent = site.worker(slots=2)
    assert site.client.start(work.chain, 2).result(LIMIT) == 2
    slots = agent.children()
    assert len(slots) == 2
    agent.signal(number)
    assert agent.wait() == 0, agent.tail()
    assert not any(is_alive(pid) for pid in slots)
    assert site.store.sessions.list() == []


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_busy_worker_finishes_its_task_and_gives_back_the_rest(site: Site, number: int) -> None:
    agent = site.worker(name="first")
    handle = site.client.start(work.patience, "a")
    site.until(lambda: site.entries("start", task="patient"), "the task runs")
    agent.signal(number)
    site.until(lambda: not site.is_ready("first"), "the session drains")
    site.open_gate("a")
    assert agent.wait() == 0, agent.tail()
    assert leases(site) == []

    site.scheduler()
    site.worker(name="second")
    assert handle.result(LIMIT) == [2, 1, 3]
    assert set(Counter(e["key"] for e in site.entries("start")).values()) == {1}
    assert handle.snapshot().attempts == []


def test_a_second_sigterm_gives_everything_back_at_once(site: Site) -> None:
    agent = site.worker(name="first")
    handle = site.client.start(work.before_during_after, "never")
    site.until(lambda: site.entries("start", task="gated"), "the task runs")
    agent.signal(signal.SIGTERM)
    site.until(lambda: not site.is_ready("first"), "the session drains")
    agent.signal(signal.SIGTERM)
    assert agent.wait() == 0, agent.tail()
    assert leases(site) == []

    site.scheduler()
    site.worker(name="second")
    assert handle.result(LIMIT) == [2, 2, 3]
    # Stopped by the agent itself: on record as an attempt, not counted as a crash.
    assert handle.snapshot().records["1:gated"]["crashes"] == 0


def test_a_task_beyond_the_drain_budget_is_stopped_and_runs_again_elsewhere(site: Site) -> None:
    agent = site.worker(name="first", TENURE_DRAIN="0.5")
    handle = site.client.start(work.before_during_after, "never")
    site.until(lambda: site.entries("start", task="gated"), "the task runs")
    agent.signal(signal.SIGTERM)
    assert agent.wait() == 0, agent.tail()
    site.scheduler()
    site.worker(name="second")
    assert handle.result(LIMIT) == [2, 2, 3]


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_scheduler_ends_at_once_with_exit_0(site: Site, number: int) -> None:
    scheduler = site.scheduler()
    site.until(lambda: site.raw.hget(site.store.keys("leader"), "owner"), "it leads")
    scheduler.signal(number)
    assert scheduler.wait() == 0, scheduler.tail()
    assert site.raw.hget(site.store.keys("leader"), "owner") == b""
