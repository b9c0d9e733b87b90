"""Several agents on one pool: the work spreads, and nothing is lost when some come, go, or are killed."""

from __future__ import annotations

import os
import random
import signal
import time
from collections import Counter
from dataclasses import replace

from tenure import Client
from tests.jobs import work
from tests.processes import Process, Site

LIMIT = 90
ITEMS = 2000


def test_a_large_map_survives_a_kill_every_second_and_a_change_of_workers(site: Site) -> None:
    """G5, G10: three agents, one added and one removed in mid-run, a slot killed every second."""
    chance = random.Random(7)
    # On a busy machine a replay takes longer than the next kill; what counts here is the work, not its limit.
    patient = replace(site.store, settings=replace(site.store.settings, crashes=1000))
    site.scheduler()
    agents = [site.worker(name=f"agent{n}", slots=1) for n in range(3)]
    handle = Client(store=patient).start(work.squares, ITEMS)
    site.until(lambda: site.entries("end"), "the first item is done")

    def done() -> int:
        return len({entry["key"] for entry in site.entries("end")})

    added = removed = False
    next_kill = time.monotonic() + 1
    while not handle.snapshot().is_terminal:
        if time.monotonic() >= next_kill:
            next_kill += 1
            kill_a_slot(chance.choice([a for a in agents if a.popen.poll() is None]))
        if not added and done() > ITEMS // 4:
            agents.append(site.worker(name="added", slots=1))
            added = True
        if not removed and done() > ITEMS // 2:
            agents[0].signal(signal.SIGTERM)
            removed = True
        time.sleep(0.02)

    assert handle.result(LIMIT) == sum(n * n for n in range(ITEMS))
    assert agents[0].wait() == 0
    runs = Counter(entry["key"] for entry in site.entries("end"))
    assert len(runs) == ITEMS
    # A body may have run twice only where an attempt is on record as lost.
    lost = {f"default:{handle.id}:{a['capability']}" for a in handle.snapshot().attempts}
    assert {key for key, count in runs.items() if count > 1} <= lost


def test_the_work_spreads_over_the_agents_of_a_pool(site: Site) -> None:
    site.worker(name="a", slots=1)
    site.worker(name="b", slots=1)
    handles = [site.client.start(work.patience, "go") for _ in range(2)]
    site.until(
        lambda: len({e["pid"] for e in site.entries("start", task="patient")}) == 2, "both slots have work"
    )
    site.open_gate("go")
    for handle in handles:
        assert handle.result(LIMIT) == [2, 1, 3]


def kill_a_slot(agent: Process) -> None:
    for pid in agent.children()[:1]:
        os.kill(pid, signal.SIGKILL)
