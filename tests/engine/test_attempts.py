"""One attempt at a task: whatever user code does, it is one recorded outcome."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import timedelta
from typing import Any
from urllib.parse import unquote

import pytest

from tenure import ExecutionFailed, Handle, Retry, Run, TaskContext, TaskFailed, recipe, task
from tenure.engine.definitions import TaskDefinition
from tenure.engine.signals import Leave, Next
from tenure.errors import LeaseLost, StoreUnreachable, Unconfirmed
from tests.engine.site import OpenSite, Site
from tests.invariants import broken
from tests.proxy import LossyProxy


def run_alone(site: Site, one: TaskDefinition[..., Any], *args: Any) -> Handle:
    """Run a task as the only one of its recipe."""

    @recipe
    def alone(run: Run, *args: Any) -> Any:
        return run.call(one, *args)

    slot = site.slot(one, alone)
    handle = site.run(alone, *args)
    slot.drain()
    return handle


def test_a_short_retry_runs_in_place_on_the_recorded_attempt(site: Site) -> None:
    """Design 4: in one slot, under one lease; the record counts."""
    seen: list[tuple[int, int, str]] = []

    @task(retry=Retry(attempts=3, initial="1ms"))
    def stumble(ctx: TaskContext) -> int:
        seen.append((ctx.attempt, ctx.fencing_token, ctx.idempotency_key))
        if ctx.attempt < 3:
            raise ConnectionError(f"attempt {ctx.attempt} stumbled")
        return ctx.attempt

    handle = run_alone(site, stumble)

    assert handle.result(1) == 3
    assert [attempt for attempt, _, _ in seen] == [1, 2, 3]
    assert len({token for _, token, _ in seen}) == 1
    assert {key for _, _, key in seen} == {f"default:{handle.id}:0:stumble"}
    causes = [attempt["cause"] for attempt in handle.snapshot().attempts]
    assert causes == [f"ConnectionError: attempt {n} stumbled" for n in (1, 2)]


def test_a_long_retry_waits_in_the_store_and_goes_to_any_slot(site: Site) -> None:
    """Design 4: attempt and due time are recorded, and no worker sleeps on them."""
    attempts: list[tuple[int, int]] = []

    @task(retry=Retry(attempts=2, initial="1h", maximum="1h"))
    def stumble(ctx: TaskContext) -> int:
        attempts.append((ctx.attempt, ctx.fencing_token))
        if ctx.attempt == 1:
            raise ConnectionError("stumbled")
        return ctx.attempt

    @recipe
    def alone(run: Run) -> int:
        return run.call(stumble)

    slot, other = site.slot(stumble, alone), site.slot(stumble, alone)
    handle = site.run(alone)
    slot.drain()
    assert site.record(handle, "0:stumble")["where"] == "due"
    assert broken(site.store) == []
    leader, route = site.lead(), f"default/{handle.id}/0:stumble"
    assert site.store.duties.make_ready(leader, route) == "not_due"

    site.pass_ms(3_600_000)
    assert site.store.duties.make_ready(site.lead(), route) == "dispatched"
    other.drain()

    assert handle.result(1) == 2
    assert [attempt for attempt, _ in attempts] == [1, 2]
    assert attempts[1][1] > attempts[0][1]


def test_the_last_attempt_fails_for_good(site: Site) -> None:
    @task(retry=Retry(attempts=2, initial="1ms"))
    def stumble(ctx: TaskContext) -> None:
        raise ConnectionError(f"attempt {ctx.attempt}")

    with pytest.raises(ExecutionFailed, match="ConnectionError: attempt 2"):
        run_alone(site, stumble).result(1)


def test_lost_attempts_do_not_count_as_retries(site: Site) -> None:
    """Design 4: crashes are counted apart; the context's attempt counts both."""
    seen: list[int] = []

    @task(retry=Retry(attempts=2, initial="1ms"))
    def stumble(ctx: TaskContext) -> int:
        seen.append(ctx.attempt)
        if ctx.attempt == 1:
            raise Leave(Next(asked=True))
        if ctx.attempt == 2:
            raise ConnectionError("stumbled")
        return ctx.attempt

    @recipe
    def alone(run: Run) -> int:
        return run.call(stumble)

    slot = site.slot(stumble, alone)
    handle = site.run(alone)
    slot.drain()
    site.bury(slot)
    site.slot(stumble, alone).drain()

    assert handle.result(1) == 3
    assert seen == [1, 2, 3]
    record = site.record(handle, "0:stumble")
    assert (record["failures"], record["crashes"]) == (1, 1)


@pytest.mark.parametrize("error", [LeaseLost("theirs"), Unconfirmed("theirs"), StoreUnreachable("theirs")])
def test_an_error_of_tenure_that_a_task_raises_itself_is_a_failure_like_any_other(
    site: Site, error: Exception
) -> None:
    """It may come from another store, which says nothing of this task's own lease."""

    @task
    def talks_to_another_store() -> None:
        raise error

    with pytest.raises(ExecutionFailed, match="theirs"):
        run_alone(site, talks_to_another_store).result(1)


class Unspeakable(Exception):  # named for what it is
    def __str__(self) -> str:
        raise RuntimeError("not even its text")


def raising(error: BaseException) -> Callable[[], None]:
    def body() -> None:
        raise error

    return body


@pytest.mark.parametrize(
    ("error", "told"),
    [
        (SystemExit(3), "SystemExit: 3"),
        (KeyboardInterrupt(), "KeyboardInterrupt"),
        (GeneratorExit(), "GeneratorExit"),
        (BaseException("base"), "BaseException: base"),
        (asyncio.CancelledError(), "CancelledError"),
        (StopIteration(), "StopIteration"),
        (OSError(2, "No such file", "caf\udce9.txt"), "FileNotFoundError"),
        (ValueError("\ud800"), "ValueError"),
        (ValueError("x" * 100_000), "ValueError: xxx"),
        (Unspeakable(), "Unspeakable"),
    ],
    ids=lambda value: type(value).__name__ if isinstance(value, BaseException) else "",
)
def test_whatever_a_task_raises_is_one_failed_attempt(site: Site, error: BaseException, told: str) -> None:
    """Design 6: nothing that user code raises ends the slot or goes unrecorded."""

    @task
    def other() -> str:
        return "next"

    failing = task(name="failing")(raising(error))

    @recipe
    def catching(run: Run) -> list[str]:
        try:
            run.call(failing)
        except TaskFailed as failed:
            return [failed.message[:100], run.call(other)]
        return []

    slot = site.slot(failing, other, catching)
    handle = site.run(catching)
    slot.drain()

    message, following = handle.result(1)
    assert told in message
    assert following == "next"
    assert site.statuses(handle)["0:failing"] == "failed"


@pytest.mark.parametrize("error", [SystemExit(3), KeyboardInterrupt(), OSError("caf\udce9"), Unspeakable()])
def test_whatever_a_recipe_raises_fails_its_execution(site: Site, error: BaseException) -> None:
    """Design 6: and the slot takes the next one."""

    @recipe
    def fine(run: Run) -> str:
        return "fine"

    @recipe
    def failing(run: Run) -> None:
        raise error

    slot = site.slot(fine, failing)
    handle, other = site.run(failing), site.run(fine)
    slot.drain()

    with pytest.raises(ExecutionFailed, match=type(error).__name__):
        handle.result(1)
    assert other.result(1) == "fine"


def test_an_async_task_runs_in_a_loop_of_its_own(site: Site) -> None:
    """Design 4: tasks may be `async def`, in a chain and in a map."""

    @task
    async def fetch(n: int, ctx: TaskContext) -> int:
        await asyncio.sleep(0)
        ctx.log("fetched")
        return n * 2

    @recipe
    def fetching(run: Run) -> list[Any]:
        return [run.call(fetch, 1), *run.map(fetch, [2, 3])]

    slot = site.slot(fetch, fetching)
    handle = site.run(fetching)
    slot.drain()

    assert handle.result(1) == [2, 4, 6]
    assert [event.data["message"] for event in handle.events() if event.kind == "log"] == ["fetched"] * 3


def test_an_async_task_that_raises_has_failed(site: Site) -> None:
    @task
    async def refuse() -> None:
        await asyncio.sleep(0)
        raise ValueError("no paper left")

    with pytest.raises(ExecutionFailed, match="ValueError: no paper left"):
        run_alone(site, refuse).result(1)


def test_progress_and_log_lines_are_events_of_the_task(site: Site) -> None:
    @task
    def draft(ctx: TaskContext) -> None:
        ctx.progress(1, 2, "half way")
        ctx.log("caf\u00e9, and a byte no text has: \udce9")
        ctx.progress(2, 2)

    handle = run_alone(site, draft)

    assert handle.status() == "completed"
    events = [event for event in handle.events() if event.kind in ("progress", "log")]
    assert [event.kind for event in events] == ["progress", "log", "progress"]
    assert [event.data["progress"] for event in events[::2]] == [[1, 2, "half way"], [2, 2, ""]]
    assert events[1].data["message"] == "caf\u00e9, and a byte no text has: \\udce9"


def test_a_report_of_a_task_that_was_taken_over_stops_it(site: Site) -> None:
    """G2: nothing it does from then on is recorded, and the other slot's work is not disturbed."""
    ran: list[int] = []

    @task
    def slow(ctx: TaskContext) -> int:
        ran.append(ctx.attempt)
        if ctx.attempt == 1:
            leader = site.lead()
            site.pass_ms(60_000)
            site.store.duties.take_over(leader, f"default/{ctx.execution_id}/0:slow", cause="lapsed")
            ctx.progress(1, 1)
            raise AssertionError("the report was accepted")
        return ctx.attempt

    handle = run_alone(site, slow)

    assert handle.result(1) == 2
    assert ran == [1, 2]
    assert broken(site.store) == []


@contextmanager
def lossy(url: str) -> Iterator[LossyProxy]:
    with LossyProxy(unquote(url.removeprefix("unix://"))) as proxy:
        yield proxy


def test_a_task_that_cannot_report_ends_its_slot_and_has_not_failed(open_site: OpenSite, site: Site) -> None:
    """G16: that the server was away is nothing the task did, though it is back when the task has ended."""
    with lossy(site.store.url) as proxy:
        remote = open_site(proxy.url, resend=timedelta(seconds=0.2))

        @task
        def slow(ctx: TaskContext) -> int:
            if ctx.attempt == 1:
                remote.store.client.close()
                with proxy.down():
                    ctx.log("half way")
            return ctx.attempt

        @recipe
        def alone(run: Run) -> int:
            return run.call(slow)

        slot = remote.slot(slow, alone)
        handle = site.run(alone)
        with pytest.raises(StoreUnreachable):
            slot.drain()

    assert site.statuses(handle) == {"0:slow": "running"}
    site.bury(slot)
    site.slot(slow, alone).drain()
    assert handle.result(1) == 2
