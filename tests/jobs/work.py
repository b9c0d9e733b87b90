"""Recipes for tests of recovery: tasks that write a ledger, and wait at gates so that a test can hit them."""

from __future__ import annotations

import asyncio
import ctypes
import os
import signal
import subprocess
import sys
import time
from typing import Any

from tenure import Needs, Retry, Run, TaskContext, recipe, task
from tests.jobs import ledger


@task
def quick(n: int, ctx: TaskContext) -> int:
    ledger.write("start", ctx, task="quick")
    ledger.write("end", ctx, task="quick")
    return n + 1


@task
def gated(gate: str, ctx: TaskContext) -> int:
    """Waits at its gate in the first attempt only."""
    ledger.write("start", ctx, task="gated")
    if ctx.attempt == 1:
        ledger.pass_gate(gate)
    ledger.write("end", ctx, task="gated")
    return ctx.attempt


@task
def patient(gate: str, ctx: TaskContext) -> int:
    """Waits at its gate in every attempt."""
    ledger.write("start", ctx, task="patient")
    ledger.pass_gate(gate)
    ledger.write("end", ctx, task="patient")
    return ctx.attempt


@task(effects="once")
def charge(gate: str, ctx: TaskContext) -> str:
    ledger.write("start", ctx, task="charge")
    ledger.pass_gate(gate)
    ledger.write("end", ctx, task="charge")
    return "charged"


@task
def item(n: int, ctx: TaskContext) -> int:
    ledger.write("end", ctx, task="item")
    return n * n


@task
def ends_in(how: str, ctx: TaskContext) -> str:
    """Ends its process, or its attempt, in some way; the second attempt returns."""
    ledger.write("start", ctx, task="ends_in")
    if ctx.attempt > 1:
        return how
    match how:
        case "os._exit":
            os._exit(3)
        case "sys.exit":
            sys.exit(4)
        case "BaseException":
            raise BaseException("not an Exception")  # noqa: TRY002  # what the test is about
        case "segfault":
            os.kill(os.getpid(), signal.SIGSEGV)
        case "memory":
            blocks = []
            while True:
                blocks.append(bytearray(os.urandom(1024) * 1024 * 8))
        case _:
            raise ValueError(how)
    return "unreachable"


@task
def poison(ctx: TaskContext) -> None:
    ledger.write("start", ctx, task="poison")
    os.kill(os.getpid(), signal.SIGKILL)


@task
def spawns(gate: str, ctx: TaskContext) -> None:
    """Starts a shell that writes on and on, and waits for it."""
    script = 'while :; do echo alive >> "$0"; sleep 0.02; done'
    writer = subprocess.Popen(["/bin/sh", "-c", script, str(ledger.folder() / "shell")])
    ledger.write("start", ctx, task="spawns", child=writer.pid)
    ledger.pass_gate(gate)
    writer.kill()
    writer.wait()


@task
def holds_the_gil(seconds: int, ctx: TaskContext) -> int:
    ledger.write("start", ctx, task="holds_the_gil")
    ctypes.PyDLL(None).sleep(seconds)  # PyDLL keeps the GIL while C runs
    ledger.write("end", ctx, task="holds_the_gil")
    return ctx.attempt


@task(needs=Needs(memory="2Gi"))
def big(n: int, ctx: TaskContext) -> int:
    ledger.write("end", ctx, task="big")
    return n


@task(retry=Retry(attempts=3, initial="50ms"))
def unlucky(ctx: TaskContext) -> int:
    ledger.write("start", ctx, task="unlucky")
    if ctx.attempt < 3:
        raise ValueError(f"attempt {ctx.attempt} has no luck")
    return ctx.attempt


@task
def listens(ctx: TaskContext) -> None:
    """Goes on until it is asked to stop."""
    ledger.write("start", ctx, task="listens")
    while True:
        ctx.check_cancelled()
        time.sleep(0.005)


@task
async def awaits(ctx: TaskContext) -> None:
    """One long await, which cannot look whether it was asked to stop."""
    ledger.write("start", ctx, task="awaits")
    await asyncio.sleep(600)


@task
def fails_at(gate: str, ctx: TaskContext) -> None:
    """Waits at its gate, and then fails."""
    ledger.write("start", ctx, task="fails_at")
    ledger.pass_gate(gate)
    raise ValueError("late")


@task(retry=Retry(attempts=2, initial="1h", maximum="1h"))
def fails_first(ctx: TaskContext) -> int:
    """Its second attempt is due an hour after the first."""
    ledger.write("start", ctx, task="fails_first")
    if ctx.attempt == 1:
        raise ValueError("the first attempt fails")
    return ctx.attempt


@task(timeout="300ms", retry=Retry(attempts=2, initial="10ms"))
def overruns(how: str, ctx: TaskContext) -> int:
    """Takes longer than its timeout, in every attempt or in the first one."""
    ledger.write("start", ctx, task="overruns")
    if how == "always" or ctx.attempt == 1:
        ledger.pass_gate("never")
    return ctx.attempt


@recipe
def listening(run: Run) -> None:
    run.call(quick, 1)
    run.call(listens)


@recipe
def awaiting(run: Run) -> None:
    run.call(awaits)


@recipe
def failing_late(run: Run, gate: str) -> None:
    run.call(fails_at, gate)


@recipe
def retried_late(run: Run) -> int:
    return run.call(fails_first)


@recipe
def overrunning(run: Run, how: str) -> int:
    return run.call(overruns, how)


@recipe
def sleeps(run: Run, how_long: str) -> list[int]:
    before = run.call(quick, 1)
    run.sleep(how_long)
    return [before, run.call(quick, 2)]


@recipe
def thinks(run: Run, gate: str) -> list[int | str]:
    """Its own code takes its time between two tasks, and it catches whatever can be caught."""
    first = run.call(quick, 1)
    ledger.pass_gate(gate)
    try:
        return [first, run.call(quick, 2)]
    except Exception as error:  # noqa: BLE001  # as careless code does
        return [type(error).__name__]


@recipe
def before_during_after(run: Run, gate: str) -> list[int]:
    before = run.call(quick, 1)
    during = run.call(gated, gate)
    after = run.call(quick, 2)
    return [before, during, after]


@recipe
def patience(run: Run, gate: str) -> list[int]:
    return [run.call(quick, 1), run.call(patient, gate), run.call(quick, 2)]


@recipe
def purchase(run: Run, gate: str) -> str:
    run.call(quick, 1)
    return run.call(charge, gate)


@recipe
def squares(run: Run, count: int) -> int:
    return sum(run.map(item, list(range(count))))


@recipe
def chain(run: Run, length: int) -> int:
    n = 0
    for _ in range(length):
        n = run.call(quick, n)
    return n


@recipe
def ending(run: Run, how: str) -> str:
    return run.call(ends_in, how)


@recipe
def poisoned(run: Run) -> None:
    run.call(poison)


@recipe
def spawning(run: Run, gate: str) -> None:
    run.call(spawns, gate)


@recipe
def gil(run: Run, seconds: int) -> int:
    return run.call(holds_the_gil, seconds)


@recipe
def needs_more(run: Run) -> list[int]:
    return [run.call(quick, 1), run.call(big, 2), run.call(quick, 3)]


@recipe
def luck(run: Run) -> int:
    return run.call(unlucky)


@recipe
def crashes_after_its_task(run: Run, marker: str) -> int:
    """Its own code kills the slot after the task has returned, until the marker file is there."""
    value = run.call(quick, 1)
    if not (ledger.folder() / marker).exists():
        os.kill(os.getpid(), signal.SIGKILL)
    return value


@recipe
def bad(run: Run, how: str) -> Any:
    if how == "parameter":
        return run.call(quick, object())
    return object()
