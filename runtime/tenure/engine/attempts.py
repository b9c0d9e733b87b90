"""Attempts at one task under one lease, until it has an outcome or waits for its next attempt elsewhere."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import timedelta
from typing import Any, assert_never

from tenure.engine.attempt import Completed, Failed, TryAgain, Withdrawn, run_task
from tenure.engine.bench import Bench
from tenure.engine.context import TaskContext
from tenure.engine.definitions import TaskDefinition
from tenure.engine.presence import Phase
from tenure.engine.signals import Next
from tenure.errors import TaskTimeout
from tenure.model.retry import RetryIn
from tenure.model.status import CapabilityStatus
from tenure.store.grants import Grant

#: Retries within this are waited for in place, holding the slot.
IN_PLACE_MS = 999


@dataclass(frozen=True, slots=True)
class Settled:
    """The task has an outcome, which is not recorded yet. `seconds` is how long the last attempt took."""

    lease: Grant
    status: CapabilityStatus
    fields: Mapping[str, Any]
    seconds: float


@dataclass(frozen=True, slots=True)
class Deferred:
    """The next attempt is due later, wherever a slot is free then; this one does `then`."""

    then: Next


def run_attempts(bench: Bench, task: TaskDefinition[..., Any], lease: Grant) -> Settled | Deferred:
    """Run a task whose start is marked.

    Raises:
        LeaseLost, Unconfirmed, StoreUnreachable: this slot is not its owner any more, or cannot know.
    """
    while True:
        bench.presence.show(Phase.TASK, [(lease.route, lease.token, True)], timeout=task.timeout)
        context = TaskContext(lease, bench.leases, bench.presence)
        began = time.monotonic()
        outcome = run_task(task, lease, context, payload_limit=bench.settings.payload)
        seconds = time.monotonic() - began
        match outcome:
            case Completed(payload, directive):
                fields = {"result": payload, "directive": directive}
                return Settled(lease, CapabilityStatus.COMPLETED, fields, seconds)
            case Failed(error, error_type):
                fields = {"error": error, "error_type": error_type}
                return Settled(lease, CapabilityStatus.FAILED, fields, seconds)
            case Withdrawn(reason):
                return Settled(lease, CapabilityStatus.CANCELLED, {"error": reason}, seconds)
            case TryAgain():
                again = _try_again(bench, task, lease, outcome)
            case _:
                assert_never(outcome)
        if isinstance(again, Deferred):
            return again
        lease = again


def _try_again(
    bench: Bench, task: TaskDefinition[..., Any], lease: Grant, again: TryAgain
) -> Grant | Deferred:
    claim = bench.takes_more
    delay_ms = _ms(again.delay)
    in_place, other = bench.leases.retry(
        lease,
        error=again.error,
        error_type=again.error_type,
        delay_ms=delay_ms,
        in_place_ms=IN_PLACE_MS,
        on_timeout=on_timeout(task, lease.failures + 1),
        claim=claim,
    )
    if not in_place:
        return Deferred(Next(other, asked=claim))
    time.sleep(delay_ms / 1000)
    return replace(lease, attempt=lease.attempt + 1, failures=lease.failures + 1)


def on_timeout(task: TaskDefinition[..., Any], failures: int) -> dict[str, int] | None:
    """What is to follow if the attempt after so many failures overruns its timeout.

    Recorded at the start mark, since whoever stops the attempt never loads user code. `delay` (ms) is missing
    if no other attempt follows. None if the task has no timeout.
    """
    if task.timeout is None:
        return None
    verdict = task.retry.verdict(failures + 1, TaskTimeout(f"{task.name} took longer than {task.timeout}"))
    after = {"timeout": _ms(task.timeout)}
    return {**after, "delay": _ms(verdict.delay)} if isinstance(verdict, RetryIn) else after


def _ms(duration: timedelta) -> int:
    return int(duration.total_seconds() * 1000)
