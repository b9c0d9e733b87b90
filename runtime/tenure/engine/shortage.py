"""What is told when nobody has what a route wants: no slot handed it off, since none was offered it."""

from __future__ import annotations

from tenure.engine.handoff import HandoffEvent
from tenure.engine.placement import Code, Placement, Wanted
from tenure.errors import InvalidInput
from tenure.model.allocation import Allocation
from tenure.model.needs import NO_NEEDS, Needs
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
    return event.key, event.arguments()["event"]


def is_met(view: RegistryView, name: str) -> bool:
    """Whether some queue meets a demand by now, by the name that `unmet` gave it; so does what is no name."""
    kind, _, rest = name.partition(" ")
    loaded, _, text = rest.partition(" ")
    try:
        needs = Needs.parse(text) if text else NO_NEEDS
    except InvalidInput:
        return True
    code = Code(task=loaded) if kind == "task" else Code(recipe=loaded)
    return bool(Placement.candidates(view, needs, code))
