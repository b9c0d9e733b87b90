"""G3: timers, delays, retries, timeouts and deadlines go by the store's clock."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from tenure import ExecutionFailed
from tests.jobs import work
from tests.processes import Site

LIMIT = 30
DAY = 86400


@pytest.fixture
def clocked(url: str, namespace: str, tmp_path: Path) -> Iterator[Site]:
    """A site whose store's clock can be moved."""
    with Site(url, namespace, tmp_path, {"TENURE_TEST_CLOCK": "1"}) as site:
        yield site


def test_a_timer_of_a_month_holds_no_worker_and_outlasts_a_restart_of_the_scheduler(clocked: Site) -> None:
    first = clocked.scheduler("first")
    clocked.worker(slots=1)
    handle = clocked.client.start(work.sleeps, "30d")
    clocked.until(lambda: handle.explain().reason == "awaiting_time", "it sleeps")
    # The slot is free meanwhile.
    assert clocked.client.start(work.chain, 2).result(LIMIT) == 2
    clocked.move_clock(29 * DAY)
    first.popen.kill()
    clocked.scheduler("second")
    clocked.until(lambda: clocked.is_ready("one"), "the session lives by the moved clock")
    assert handle.explain().reason == "awaiting_time"
    clocked.move_clock(DAY + 60)
    assert handle.result(LIMIT) == [2, 3]
    assert len(clocked.entries("start", key=f"default:{handle.id}:0:quick")) == 1


def test_a_retry_is_due_an_hour_later_and_keeps_its_attempt(clocked: Site) -> None:
    clocked.scheduler()
    clocked.worker(slots=1)
    handle = clocked.client.start(work.retried_late)
    clocked.until(
        lambda: handle.snapshot().records.get("0:fails_first", {}).get("where") == "due",
        "it waits for an hour",
    )
    clocked.move_clock(3601)
    assert handle.result(LIMIT) == 2


def test_a_delayed_execution_begins_when_its_time_has_come(clocked: Site) -> None:
    clocked.scheduler()
    clocked.worker(slots=1)
    delayed = clocked.client.start(work.chain, 1, delay="2h")
    later = clocked.client.start(work.chain, 2, at=datetime.now(UTC) + timedelta(hours=2))
    assert delayed.explain().reason == "awaiting_time"
    clocked.move_clock(2 * 3600 + 1)
    assert delayed.result(LIMIT) == 1
    assert later.result(LIMIT) == 2


def test_an_attempt_that_overruns_its_timeout_is_stopped_and_retried(site: Site) -> None:
    site.scheduler()
    site.worker(slots=1)
    handle = site.client.start(work.overrunning, "once")
    assert handle.result(LIMIT) == 2
    (attempt,) = handle.snapshot().attempts
    assert "timeout" in attempt["cause"]
    assert handle.snapshot().records["0:overruns"]["crashes"] == 0


def test_a_task_whose_attempts_all_overrun_fails_with_its_timeout(site: Site) -> None:
    site.scheduler()
    site.worker(slots=1)
    handle = site.client.start(work.overrunning, "always")
    with pytest.raises(ExecutionFailed, match="timeout"):
        handle.result(LIMIT)
    assert len(site.entries("start")) == 2


def test_an_execution_past_its_deadline_fails_and_what_runs_is_stopped(site: Site) -> None:
    """A deadline is a failure, a cancellation is not."""
    site.scheduler()
    site.worker(slots=1, TENURE_GRACE="0.5")
    handle = site.client.start(work.patience, "never", deadline="5s")
    with pytest.raises(ExecutionFailed, match="deadline"):
        handle.result(LIMIT)
    assert handle.snapshot().records["1:patient"]["status"] == "cancelled"


def test_a_deadline_binds_without_any_scheduler_as_soon_as_the_execution_takes_a_step(clocked: Site) -> None:
    clocked.worker(slots=1)
    handle = clocked.client.start(work.patience, "a", deadline="1h")
    clocked.until(lambda: clocked.entries("start", task="patient"), "it runs")
    clocked.move_clock(3601)
    clocked.open_gate("a")
    with pytest.raises(ExecutionFailed, match="deadline"):
        handle.result(LIMIT)


def test_a_parked_execution_fails_at_its_deadline_too(site: Site) -> None:
    site.scheduler()
    handle = site.client.start(work.chain, 1, deadline="200ms")
    with pytest.raises(ExecutionFailed, match="deadline"):
        handle.result(LIMIT)
