"""RQ's own sweeps over an hour: nothing of ours is shown as failed, and no execution notices (G10)."""

from __future__ import annotations

import os
import signal
import time
from typing import Any

from rq.queue import Queue
from rq.registry import clean_registries
from rq.worker_registration import clean_worker_registry

from tenure.dashboard.app import make_app
from tests.dashboard.conftest import Busy
from tests.jobs import work
from tests.processes import Process, Site

MINUTE, HOUR = 60, 3600
#: Leases that outlive the minutes by which this test moves the store's clock at once.
CLOCKED = {"TENURE_LEASE": "90", "TENURE_RENEWAL": "0.1", "TENURE_TEST_CLOCK": "1"}


def rq_clock_moves(site: Site, queue: str, seconds: int, *, keys_age: bool = True) -> None:
    """RQ compares what it has stored with its client's clock, and the server ends keys by its own.

    So to let that time pass is to move all that is stored back, and to shorten the life of keys; a client
    whose clock is ahead sees the first alone.
    """
    client = site.raw
    for registry in ("wip", "failed", "finished", "deferred", "scheduled", "canceled"):
        for member in client.zrange(f"rq:{registry}:{queue}", 0, -1):
            client.zincrby(f"rq:{registry}:{queue}", -seconds, member)
    if not keys_age:
        return
    workers = client.smembers(f"rq:workers:{queue}")
    for key in [*workers, *client.scan_iter(f"rq:*{site.namespace}-*")]:
        left = client.pttl(key)
        if left > seconds * 1000:
            client.pexpire(key, left - seconds * 1000)
        elif left > 0:
            client.delete(key)


def sweep(site: Site, queue: str) -> None:
    """What RQ's workers and `rq` commands do for maintenance."""
    one = Queue(queue, connection=site.raw)
    clean_registries(one)
    clean_worker_registry(one)


def shown(site: Site, queue: str) -> dict[str, Any]:
    """The queue's row in the dashboard."""
    answer = make_app(site.store).test_client().get("/0/data/queues.json")
    assert answer.json is not None
    return next(row for row in answer.json["queues"] if row["name"] == queue)


def nothing_failed(site: Site, queue: str) -> bool:
    return bool(shown(site, queue)["failed_job_registry_count"] == 0)


def test_an_hour_of_sweeps_while_a_task_runs(site: Site) -> None:
    """A minute at a time, the store's clock and RQ's: renewals come far more often than that."""
    site.settings.update(CLOCKED)
    site.scheduler()
    site.worker(slots=1)
    site.until(lambda: site.store.sessions.view().queues[0].idle == 1, "the slot is idle")
    first = site.client.start(work.patience, "a")
    site.until(lambda: site.entries("start", task="patient"), "the slot is busy")
    behind = [site.client.start(work.chain, 2) for _ in range(3)]
    queue = site.store.sessions.view().queues[0].name

    def renewed() -> bool:
        (entry,) = site.raw.zrange(f"rq:wip:{queue}", 0, -1, withscores=True)
        (session,) = site.store.sessions.list()
        moved = int(site.raw.get(f"{site.namespace}:clock") or 0) / 1000
        assert session.expires_at is not None
        return bool(entry[1] > time.time() + 80 and session.expires_at / 1000 > time.time() + moved + 80)

    for _ in range(HOUR // MINUTE):
        site.until(renewed, "the agent has renewed")
        rq_clock_moves(site, queue, MINUTE)
        site.raw.incrby(f"{site.namespace}:clock", MINUTE * 1000)
        sweep(site, queue)
        row = shown(site, queue)
        assert (row["started_job_registry_count"], row["failed_job_registry_count"]) == (1, 0)

    site.open_gate("a")
    assert first.result(60) == [2, 1, 3]  # the task's first attempt
    assert [handle.result(60) for handle in behind] == [2, 2, 2]
    assert nothing_failed(site, queue)


def kill(agent: Process) -> None:
    """Agent and slots at once, so that nobody tells RQ."""
    slots = agent.children()
    agent.signal(signal.SIGSTOP)
    for pid in [*slots, agent.pid]:
        os.kill(pid, signal.SIGKILL)
    agent.popen.wait()


def test_what_a_dead_worker_was_running_is_not_shown_as_failed(busy: Busy) -> None:
    site, queue = busy.site, busy.queue
    agent = next(process for process in site.processes if process.name == "one")
    running = busy.running
    kill(agent)
    rq_clock_moves(site, queue, HOUR)
    sweep(site, queue)
    row = shown(site, queue)
    assert (row["started_job_registry_count"], row["failed_job_registry_count"]) == (0, 0)
    assert list(site.raw.scan_iter(f"rq:*{running}*")) == []

    site.worker(name="two")
    site.open_gate("a")
    assert busy.first.result(60) == [2, 2, 3]
    assert [handle.result(60) for handle in busy.behind] == [2, 2, 2]
    assert nothing_failed(site, queue)


def test_a_sweep_by_a_clock_that_is_an_hour_ahead_harms_nothing(busy: Busy) -> None:
    """RQ takes the running ticket for abandoned. The slot does not notice, and nothing runs twice."""
    rq_clock_moves(busy.site, busy.queue, HOUR, keys_age=False)
    sweep(busy.site, busy.queue)
    assert nothing_failed(busy.site, busy.queue)
    busy.finish()
    assert nothing_failed(busy.site, busy.queue)
