"""A slot dies in the middle of something; its agent sees it and the work goes on."""

from __future__ import annotations

import os
import signal
from collections import Counter

import pytest

from tenure import ExecutionFailed
from tests.jobs import work
from tests.memory import memory_cgroup
from tests.processes import Site, is_alive

LIMIT = 30


def runs(site: Site) -> Counter[str]:
    """How often each capability was started."""
    return Counter(entry["key"] for entry in site.entries("start"))


def test_a_task_whose_slot_is_killed_runs_again_and_completed_tasks_do_not(site: Site) -> None:
    """G5; the attempt that died is on record with its cause."""
    site.worker(slots=2)
    handle = site.client.start(work.before_during_after, "a")
    site.until(lambda: site.entries("start", task="gated"), "the gated task has started")
    (first,) = site.entries("start", task="gated")

    os.kill(first["pid"], signal.SIGKILL)

    assert handle.result(LIMIT) == [2, 2, 3]
    assert runs(site) == {
        f"default:{handle.id}:0:quick": 1,
        f"default:{handle.id}:1:gated": 2,
        f"default:{handle.id}:2:quick": 1,
    }
    (lost,) = handle.snapshot().attempts
    assert lost["capability"] == "1:gated"
    assert "killed by SIGKILL" in lost["cause"]
    assert lost["token"] == first["token"]
    second = site.entries("start", task="gated")[1]
    assert second["token"] > first["token"]


def test_a_once_task_whose_slot_is_killed_is_unknown_and_never_runs_again(site: Site) -> None:
    """G7"""
    site.worker(slots=2)
    handle = site.client.start(work.purchase, "shop")
    site.until(lambda: site.entries("start", task="charge"), "the charge has started")
    (first,) = site.entries("start", task="charge")

    os.kill(first["pid"], signal.SIGKILL)

    site.until(lambda: handle.explain().reason == "unknown_outcome", "the outcome is unknown")
    # Another execution runs to its end on the same worker; the charge stays where it is.
    assert site.client.start(work.chain, 3).result(LIMIT) == 3
    assert len(site.entries("start", task="charge")) == 1
    assert "killed by SIGKILL" in handle.explain().summary


@pytest.mark.parametrize(
    ("how", "cause"),
    [
        ("os._exit", "exited with code 3"),
        ("segfault", "killed by SIGSEGV"),
        ("sys.exit", "SystemExit: 4"),
        ("BaseException", "BaseException: not an Exception"),
    ],
)
def test_a_task_that_ends_its_process_or_raises_anything_is_one_failed_attempt(
    site: Site, how: str, cause: str
) -> None:
    site.worker(slots=1)
    handle = site.client.start(work.ending, how)

    if how in ("sys.exit", "BaseException"):
        # An exception that no retry policy asks to repeat: the task has failed, and the slot lives on.
        with pytest.raises(ExecutionFailed, match=cause):
            handle.result(LIMIT)
        assert len(site.entries("start")) == 1
        assert site.client.start(work.chain, 1).result(LIMIT) == 1
    else:
        assert handle.result(LIMIT) == how
        (lost,) = handle.snapshot().attempts
        assert cause in lost["cause"]


def test_a_task_killed_for_memory_is_one_lost_attempt_that_says_so(site: Site) -> None:
    """In a memory cgroup of the test's own, the kernel kills the slot."""
    with memory_cgroup(f"tenure-{site.namespace}", 300 * 1024 * 1024) as cgroup:
        agent = site.worker(slots=1, cgroup=cgroup)
        handle = site.client.start(work.ending, "memory")
        assert handle.result(60) == "memory"
        (lost,) = handle.snapshot().attempts
        assert "killed for memory" in lost["cause"]
        agent.signal(signal.SIGTERM)
        agent.wait()


def test_what_kills_every_slot_it_runs_in_fails_with_its_causes_of_death(site: Site) -> None:
    site.worker(slots=2)
    handle = site.client.start(work.poisoned)
    with pytest.raises(ExecutionFailed, match=r"killed 3 slots: .*SIGKILL.*SIGKILL.*SIGKILL"):
        handle.result(LIMIT)
    assert len(site.entries("start")) == 3


def test_a_crash_of_the_recipes_own_code_is_charged_to_the_recipe(site: Site) -> None:
    """The task had returned: it has no crash on its account, and the recipe fails with three."""
    site.worker(slots=1)
    handle = site.client.start(work.crashes_after_its_task, "marker")
    with pytest.raises(ExecutionFailed, match="the recipe killed 3 slots"):
        handle.result(LIMIT)
    records = handle.snapshot().records
    assert records["0:quick"]["crashes"] == 0
    assert records["recipe"]["crashes"] == 3


def test_a_tasks_own_subprocess_does_not_outlive_its_slot(site: Site) -> None:
    site.worker(slots=1)
    site.client.start(work.spawning, "never")
    site.until(lambda: site.entries("start"), "the shell runs")
    (entry,) = site.entries("start")
    assert is_alive(entry["child"])
    os.kill(entry["pid"], signal.SIGKILL)
    site.until(lambda: not is_alive(entry["child"]), "the shell is gone")


def test_a_tasks_own_subprocess_does_not_outlive_its_agent(site: Site) -> None:
    agent = site.worker(slots=1)
    site.client.start(work.spawning, "never")
    site.until(lambda: site.entries("start"), "the shell runs")
    (entry,) = site.entries("start")
    agent.signal(signal.SIGKILL)
    site.until(lambda: not is_alive(entry["child"]), "the shell is gone")
    site.until(lambda: not is_alive(entry["pid"]), "the slot is gone")


def test_a_task_that_holds_the_gil_beyond_the_lease_keeps_it(site: Site) -> None:
    """The lease is 2 s here and renewed by the agent, never by the user's thread."""
    site.scheduler()
    site.worker(slots=1)
    site.worker(name="two", slots=1)
    handle = site.client.start(work.gil, 5)
    assert handle.result(60) == 1
    assert len(site.entries("start")) == 1
