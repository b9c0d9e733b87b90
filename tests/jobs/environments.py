"""Recipes that need other environments. Their tasks write the ledger."""

from __future__ import annotations

import os
import signal

from tenure import Needs, Run, TaskContext, recipe, task
from tests.jobs import ledger


@task
def note(what: str, ctx: TaskContext) -> str:
    ledger.write("run", ctx, task=what)
    return what


@task(needs=Needs(memory="2Gi"))
def requires(zone: str, ctx: TaskContext) -> str:
    """Runs in a larger environment, and requires a zone from its end on."""
    ledger.write("run", ctx, task="requires")
    ctx.suspend(Needs(label={"zone": zone}))
    return zone


@recipe(needs=Needs(memory="2Gi"))
def demanding(run: Run, n: int) -> str:
    return run.call(note, str(n))


@recipe
def dies_before_it_yields(run: Run, zone: str) -> list[str]:
    """Its second replay kills the slot before it comes to the result that is to be accepted."""
    replays = ledger.folder() / "replays"
    with replays.open("a") as counted:
        counted.write("+")
    if replays.stat().st_size == 2:
        os.kill(os.getpid(), signal.SIGKILL)
    return [run.call(requires, zone), run.call(note, "last")]
