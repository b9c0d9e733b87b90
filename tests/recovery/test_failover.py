"""A Sentinel makes the replica the primary, while a worker runs a map.

Replication is asynchronous: what a primary has acknowledged in its last moments may be gone with it. G5 holds
for the writes that were kept.
"""

from __future__ import annotations

import signal
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

from tenure import Handle
from tests.jobs import work
from tests.processes import Site
from tests.sentinels import Watched

LIMIT = 60
COUNT = 1200


@pytest.fixture
def nodes(tmp_path: Path) -> Iterator[Watched]:
    # Time to look at the replica before it is promoted.
    with Watched(tmp_path, down_after_ms=1500) as watched:
        yield watched


@pytest.fixture
def failing(nodes: Watched, tmp_path: Path) -> Iterator[Site]:
    """A scheduler and two slots, who know the servers by their Sentinel."""
    with Site(nodes.url, "failover", tmp_path) as site:
        site.scheduler()
        site.worker(slots=2)
        yield site


def done(site: Site) -> Counter[str]:
    """How often each item has run, whatever the store says."""
    return Counter(entry["key"] for entry in site.entries("end", task="item"))


def kept_by_replica(nodes: Watched, site: Site, handle: Handle) -> set[str]:
    """The items whose results have reached it; with the primary gone, and before it becomes the primary."""
    site.until(nodes.is_cut_off, "the replica has noticed")
    with nodes.replica.asking() as replica:
        names = replica.hkeys(site.store.keys("results", "default", handle.id))
        assert replica.role()[0] == "slave", "promoted before the test has looked"
    return {f"default:{handle.id}:{name}" for name in names}


def finish(site: Site, handle: Handle) -> Counter[str]:
    """Everything finishes; how often each item has run."""
    assert handle.result(LIMIT) == sum(n * n for n in range(COUNT))
    runs = done(site)
    assert len(runs) == COUNT
    return runs


def test_a_failover_that_loses_nothing_runs_nothing_again(nodes: Watched, failing: Site) -> None:
    """G5"""
    run_before = failing.store.run_id()
    handle = failing.client.start(work.squares, COUNT)
    failing.until(lambda: len(done(failing)) > COUNT // 5, "a fifth is done")

    nodes.primary.kill()
    kept = kept_by_replica(nodes, failing, handle)
    runs = finish(failing, handle)

    assert failing.store.run_id() != run_before
    ran_again = {key for key, count in runs.items() if count > 1}
    assert not ran_again & kept
    # On one machine a write is at the replica within a millisecond; a slot has one item at a time.
    assert len(ran_again) <= 2
    # Whoever is new finds the new primary.
    new = failing.worker(name="two", pool="other")
    assert failing.client.start(work.chain, 3).result(LIMIT) == 3
    new.signal(signal.SIGTERM)
    assert new.wait() == 0


def test_what_the_replica_had_not_received_runs_once_more_and_nothing_else(
    nodes: Watched, failing: Site
) -> None:
    """G2, G5: leases and results that the new primary never had are refused, and made again."""
    handle = failing.client.start(work.squares, COUNT)
    failing.until(lambda: len(done(failing)) > COUNT // 5, "a fifth is done")

    nodes.stop_replicating()
    before = len(done(failing))
    failing.until(lambda: len(done(failing)) > before + 100, "a hundred that the replica does not get")
    nodes.primary.kill()
    nodes.replica.resume()
    lost = set(done(failing))
    kept = kept_by_replica(nodes, failing, handle)
    lost -= kept
    runs = finish(failing, handle)

    assert len(lost) > 90
    assert all(runs[key] == 1 for key in kept)
    assert all(runs[key] == 2 for key in lost)
    ran_again = {key for key, count in runs.items() if count > 1}
    # A slot may have been at one more.
    assert len(ran_again - lost) <= 2
