"""What is told when nobody has what a route wants: no slot handed it off, since none was offered it."""

from __future__ import annotations

from tenure.engine.handoff import HandoffEvent
from tenure.engine.placement import Placement, Wanted
from tenure.model.allocation import Allocation
from tenure.store.sessions import RegistryView

AWAITING_ENVIRONMENT = "awaiting_environment"


def unmet(
    view: RegistryView, wanted: Wanted, *, instance: str, execution: str, capability: str
) -> tuple[str, str]:
    """What names an unmet demand, the same for every route that wants the same, and its event for the outbox.

    The event compares the demand with the nearest queue that has the code, if there is one.
    """
    nearest = next(
        (v for v in Placement.verdicts(view, wanted.needs, wanted.code) if not v.code_missing), None
    )
    event = HandoffEvent(
        kind=AWAITING_ENVIRONMENT,
        instance=instance,
        execution=execution,
        capability=capability,
        code=str(wanted.code),
        demand=wanted.demand,
        allocation=Allocation() if nearest is None else nearest.queue.allocation,
        mismatches=() if nearest is None else nearest.mismatches,
        published=True,
    )
    return f"{wanted.code} {wanted.demand.text}", event.arguments()["event"]
