"""G6, G9, G14: a cancellation is a durable intent, no failure, and needs no worker where nothing runs."""

from __future__ import annotations

import pytest

from tenure import ExecutionCancelled, Handle, Needs
from tests.jobs import work
from tests.processes import Site, is_alive

LIMIT = 30


def assert_cancelled(handle: Handle, reason: str = "enough") -> None:
    with pytest.raises(ExecutionCancelled, match=reason):
        handle.result(LIMIT)
    snapshot = handle.snapshot()
    assert snapshot.status == "cancelled"
    assert all(record.get("where") is None for record in snapshot.records.values())
    assert "failed" not in {record["status"] for record in snapshot.records.values()}


def test_what_waits_for_a_busy_worker_ends_at_once(site: Site) -> None:
    site.worker(slots=1)
    busy = site.client.start(work.patience, "a")
    site.until(lambda: site.entries("start", task="patient"), "the slot is busy")
    waiting = site.client.start(work.chain, 3)
    assert waiting.cancel("enough") == "cancelled"
    assert_cancelled(waiting)
    site.open_gate("a")
    assert busy.result(LIMIT) == [2, 1, 3]
    assert not [e for e in site.entries("start") if waiting.id in e["key"]]


def test_what_is_parked_ends_at_once_without_any_worker(site: Site) -> None:
    handle = site.client.start(work.chain, 3, needs=Needs(memory="1Ti"))
    assert handle.explain().reason == "awaiting_environment"
    assert handle.cancel("enough") == "cancelled"
    assert_cancelled(handle)


def test_what_sleeps_ends_at_once_without_any_worker(site: Site) -> None:
    site.worker(slots=1)
    handle = site.client.start(work.sleeps, "30d")
    site.until(lambda: handle.explain().reason == "awaiting_time", "it sleeps")
    assert handle.cancel("enough") == "cancelled"
    assert_cancelled(handle)
    assert handle.snapshot().records["1:sleep"]["status"] == "cancelled"


def test_what_waits_for_its_next_attempt_ends_at_once(site: Site) -> None:
    site.worker(slots=1)
    handle = site.client.start(work.retried_late)
    site.until(lambda: handle.snapshot().records.get("0:fails_first", {}).get("where") == "due", "it waits")
    assert handle.cancel("enough") == "cancelled"
    assert_cancelled(handle)
    assert len(site.entries("start")) == 1


def test_a_running_task_that_listens_is_asked_and_stops(site: Site) -> None:
    site.worker(slots=1)
    handle = site.client.start(work.listening)
    site.until(lambda: site.entries("start", task="listens"), "it runs")
    (entry,) = site.entries("start", task="listens")
    assert handle.cancel("enough") == "requested"
    assert_cancelled(handle)
    assert handle.snapshot().records["0:quick"]["status"] == "completed"
    assert handle.snapshot().records["1:listens"]["status"] == "cancelled"
    # It left by itself: its slot was not stopped.
    assert is_alive(entry["pid"])
    assert site.client.start(work.chain, 1).result(LIMIT) == 1


def test_a_coroutine_is_cancelled_at_its_await(site: Site) -> None:
    site.worker(slots=1, TENURE_GRACE="60")
    handle = site.client.start(work.awaiting)
    site.until(lambda: site.entries("start", task="awaits"), "it awaits")
    assert handle.cancel("enough") == "requested"
    assert_cancelled(handle)
    assert handle.snapshot().records["0:awaits"]["status"] == "cancelled"


def test_a_running_task_that_is_deaf_is_stopped_after_the_grace_period(site: Site) -> None:
    site.worker(slots=1, TENURE_GRACE="0.5")
    handle = site.client.start(work.patience, "never")
    site.until(lambda: site.entries("start", task="patient"), "it runs")
    (entry,) = site.entries("start", task="patient")
    assert handle.cancel("enough") == "requested"
    assert_cancelled(handle)
    site.until(lambda: not is_alive(entry["pid"]), "its slot was stopped")
    assert len(site.entries("start", task="patient")) == 1


def test_a_once_task_that_is_stopped_is_unknown_and_keeps_the_execution_open(site: Site) -> None:
    """G7: a `once` task stopped after its start mark is UNKNOWN, whatever stopped it; the intent stays."""
    site.worker(slots=1, TENURE_GRACE="0.5")
    handle = site.client.start(work.purchase, "never")
    site.until(lambda: site.entries("start", task="charge"), "it runs")
    assert handle.cancel("enough") == "requested"
    site.until(lambda: handle.snapshot().records["1:charge"]["where"] == "unknown", "its end is not known")
    assert handle.status() == "running"
    assert handle.cancel("again") == "unknown"
    explanation = handle.explain()
    assert explanation.reason == "cancelling"
    assert "enough" in explanation.summary
    assert "1:charge" in explanation.summary


def test_a_task_that_completes_meanwhile_keeps_its_result(site: Site) -> None:
    site.worker(slots=1, TENURE_GRACE="60")
    handle = site.client.start(work.patience, "a")
    site.until(lambda: site.entries("start", task="patient"), "it runs")
    assert handle.cancel("enough") == "requested"
    site.open_gate("a")
    assert_cancelled(handle)
    assert handle.snapshot().records["1:patient"]["status"] == "completed"


def test_a_late_failure_after_a_cancellation_blames_nobody(site: Site) -> None:
    """G14"""
    site.worker(slots=1, TENURE_GRACE="60")
    handle = site.client.start(work.failing_late, "a")
    site.until(lambda: site.entries("start", task="fails_at"), "it runs")
    assert handle.cancel("enough") == "requested"
    site.open_gate("a")
    assert_cancelled(handle)


def test_the_first_reason_stays(site: Site) -> None:
    site.worker(slots=1, TENURE_GRACE="60")
    handle = site.client.start(work.patience, "a")
    site.until(lambda: site.entries("start", task="patient"), "it runs")
    assert handle.cancel("enough") == "requested"
    assert handle.cancel("too late") == "requested"
    site.open_gate("a")
    assert_cancelled(handle, "enough")


def test_what_has_ended_cannot_be_cancelled(site: Site) -> None:
    site.worker(slots=1)
    handle = site.client.start(work.chain, 2)
    assert handle.result(LIMIT) == 2
    before = handle.snapshot()
    assert handle.cancel("too late") == "already_terminal"
    assert handle.snapshot() == before
