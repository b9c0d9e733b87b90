"""Every call that writes under a lease, as a table, and ways to lose the lease meanwhile."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tenure.store.grants import Grant
from tenure.store.leases import SlotLeases
from tests.store.stage import INSTANCE, Stage

Write = Callable[[Stage, SlotLeases, Grant], object]

TASK_WRITES: dict[str, Write] = {
    "mark_started": lambda stage, slot, grant: slot.mark_started(grant),
    "step": lambda stage, slot, grant: stage.settle(slot, grant),
    "retry": lambda stage, slot, grant: slot.retry(
        grant, error="", error_type="E", delay_ms=0, in_place_ms=999, claim=False
    ),
    "reschedule": lambda stage, slot, grant: slot.reschedule(grant, reason="drain"),
    "report": lambda stage, slot, grant: slot.report(grant, message="half way"),
    "report progress": lambda stage, slot, grant: slot.report(grant, progress=(1, 2, "")),
}
RECIPE_WRITES: dict[str, Write] = {
    "write_params": lambda stage, slot, grant: slot.write_params(
        instance=INSTANCE, execution=grant.execution, token=grant.token, params=["0:draw:0", b"x"]
    ),
    "reschedule": lambda stage, slot, grant: slot.reschedule(grant, reason="drain"),
    "hold": lambda stage, slot, grant: stage.advance(slot, grant, "hold"),
    "run": lambda stage, slot, grant: stage.advance(slot, grant, "run", open=stage.spec(7)),
    "suspend": lambda stage, slot, grant: stage.suspend(slot, grant, stage.spec(7)),
    "complete": lambda stage, slot, grant: stage.advance(slot, grant, "complete", result=b"\x01\x01"),
    "fail": lambda stage, slot, grant: stage.advance(slot, grant, "fail", error="it broke"),
    "block": lambda stage, slot, grant: stage.advance(slot, grant, "block", error="it broke"),
}


def dump_of_data(stage: Stage) -> dict[str, Any]:
    """What is stored but for the slot lives, which note the answer to every request."""
    return {key: value for key, value in stage.dump().items() if ":life:" not in key}


def take_over(stage: Stage, *routes: str) -> None:
    """Let all leases lapse, and give back the work of those who held them."""
    leader = stage.lead()
    stage.let_leases_lapse()
    for route in routes:
        stage.store.duties.take_over(leader, route, cause="its lease lapsed:")
