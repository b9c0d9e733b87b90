"""What an execution waits for of the slots that could take it: the demand of each of its routes that wait.

A demand is for slots, so only routes that wait show one: of what runs it is met already, and what has ended
asks for nothing. One that cannot be read is never taken for no needs, nor hidden behind one that can (G17).
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import Any, Final

from tenure.errors import InvalidInput, Malformed, NewerSchema
from tenure.model.allocation import Allocation
from tenure.model.demand import Demand, Layer, nested, read_needs
from tenure.model.fit import compare
from tenure.model.needs import NO_NEEDS, Needs
from tenure.model.status import InvocationState, RouteIndex, WaitingReason
from tenure.store.keys import RECIPE
from tenure.store.stored import Record, StoredExecution


class EnvironmentStatus(StrEnum):
    """What is known of a demand; the last two are of executions alone."""

    SPECIFIED = "specified"
    UNSPECIFIED = "unspecified"
    #: A recipe whose demand was never published: whoever takes it looks.
    UNRESOLVED = "unresolved"
    MALFORMED = "malformed"
    #: Of a newer version than this one.
    UNSUPPORTED = "unsupported"
    #: Something of it runs, or may still run: a lapsed lease and a lost outcome prove nothing. Its other
    #: routes may wait all the same.
    IN_FLIGHT = "in_flight"
    #: It has ended, or has no route in any index.
    NOT_WAITING = "not_waiting"


#: What is said of it whatever the other routes of an execution have, worst first.
_UNREADABLE: Final = (EnvironmentStatus.MALFORMED, EnvironmentStatus.UNSUPPORTED)

#: Reasons of a route that will need a slot before it goes on. While a recipe waits for tasks, only they do.
_WAITS: Final = frozenset(WaitingReason) - {
    WaitingReason.CANCELLING,
    WaitingReason.UNKNOWN_OUTCOME,
    WaitingReason.CRASH_CONCERN,
    WaitingReason.ACTIVE,
    WaitingReason.AWAITING_TASKS,
}


#: Reasons of a route that a slot could take now. No allocation brings a time, a signal or a child's end, nor
#: frees what an error has blocked.
_TAKEABLE: Final = frozenset({WaitingReason.READY, WaitingReason.AWAITING_ENVIRONMENT})


@dataclass(frozen=True, slots=True, kw_only=True)
class RouteDemand:
    """The demand of one route as far as it can be known."""

    capability: str
    status: EnvironmentStatus
    #: None where they are not known. That is not the same as no needs.
    needs: Needs | None = None
    #: The layer that each effective property comes from; names are those of the one-line form.
    sources: Mapping[str, Layer] = field(default_factory=dict)
    #: The capability whose task required a property of the job (`ctx.suspend`), where the records of what has
    #: ended are at hand; None where they are not, as in a listing.
    required_by: Mapping[str, str] | None = field(default_factory=dict, compare=False)
    #: How often a demand has been published for it; None if never.
    revision: int | None = None
    #: What the last slot had that handed it off, in the one-line form; empty if nothing was known of it.
    handed_off: str | None = None
    error: str | None = None

    def is_met_by(self, allocation: Allocation) -> bool:
        """Whether a slot with this allocation would do; never where the needs are not known."""
        return self.needs is not None and not compare(self.needs, allocation)

    def asked_by(self, name: str) -> str:
        """Who asks for a property: "recipe", "scope", "task", "job", or "job, by 0:plan"."""
        by = (self.required_by or {}).get(name)
        return self.sources[name].value + (f", by {by}" if by else "")

    def __str__(self) -> str:
        if self.needs is None:
            return f"{self.status}: {self.error}" if self.error else str(self.status)
        return ", ".join(
            f"{name}={text} ({self.asked_by(name)})" for name, text in self.needs.texts().items()
        )

    def to_data(self) -> dict[str, Any]:
        """Plain data for --json; `needs` is None where they are not known.

        `sources` and `required_by` are nested as `needs` are.
        """
        return {
            "demand": self.status.value,
            "needs": None if self.needs is None else self.needs.to_data(),
            "sources": nested({name: layer.value for name, layer in self.sources.items()}),
            "required_by": None if self.required_by is None else nested(self.required_by),
            "revision": self.revision,
            "handed_off": None if self.handed_off is None else _allocation_data(self.handed_off),
            "demand_error": self.error,
        }


@dataclass(frozen=True, slots=True)
class WaitingRoute:
    """A route that waits, why, and what it demands."""

    reason: WaitingReason
    demand: RouteDemand


@dataclass(frozen=True, slots=True)
class Environment:
    """What an execution waits for; `routes` begins with what it waits for first."""

    status: EnvironmentStatus
    routes: Sequence[WaitingRoute] = ()

    def is_met_by(self, allocation: Allocation, *, include_unresolved: bool = False) -> bool:
        """Whether a slot with this allocation could take at least one of its routes now.

        Never if the demand of any cannot be read.
        """
        if self.status in _UNREADABLE:
            return False
        return any(
            one.demand.is_met_by(allocation)
            or (include_unresolved and one.demand.status is EnvironmentStatus.UNRESOLVED)
            for one in self.routes
            if one.reason in _TAKEABLE
        )

    def to_data(self) -> dict[str, Any]:
        """Plain data for --json."""
        routes = [
            {"capability": one.demand.capability, "reason": one.reason.value, **one.demand.to_data()}
            for one in self.routes
        ]
        return {"status": self.status.value, "routes": routes}


def environment_of(stored: StoredExecution) -> Environment:
    """What an execution waits for.

    One demand that is malformed makes it malformed, and else one that is unsupported makes it unsupported. If
    anything of it is leased it is in flight, and its routes are those that wait beside that. Otherwise its
    status is that of its first route, by the precedence of waiting reasons and then in the order of the
    recipe's calls.
    """
    if stored.is_terminal:
        return Environment(EnvironmentStatus.NOT_WAITING)
    reasons = {name: stored.reason_of(name) for name, record in stored.records.items() if record.get("where")}
    waiting = [name for name, reason in reasons.items() if reason in _WAITS]
    order = list(WaitingReason)
    waiting.sort(key=lambda name: (order.index(reasons[name]), *_call(stored.records[name]), name))
    routes = [WaitingRoute(reasons[name], route_demand(stored, name)) for name in waiting]
    return Environment(_status(reasons.values(), routes), routes)


def _status(reasons: Collection[WaitingReason], routes: Sequence[WaitingRoute]) -> EnvironmentStatus:
    held = {one.demand.status for one in routes}
    if unreadable := next((status for status in _UNREADABLE if status in held), None):
        return unreadable
    if WaitingReason.ACTIVE in reasons or WaitingReason.CRASH_CONCERN in reasons:
        return EnvironmentStatus.IN_FLIGHT
    if routes:
        return routes[0].demand.status
    is_lost = WaitingReason.UNKNOWN_OUTCOME in reasons
    return EnvironmentStatus.IN_FLIGHT if is_lost else EnvironmentStatus.NOT_WAITING


def _call(record: Record) -> tuple[int, int]:
    """Which call of the recipe it is, and which item of it; the recipe itself comes first."""
    ordinal, index = record.get("ordinal"), record.get("index")
    return ordinal if isinstance(ordinal, int) else 0, index if isinstance(index, int) else -1


def route_demand(stored: StoredExecution, capability: str) -> RouteDemand:
    """The demand of one route, whether or not it waits. What cannot be read is said in the answer (G17)."""
    record = stored.records[capability]
    revision, handed_off = record.get("revision"), record.get("handed_off")
    unresolved = RouteDemand(
        capability=capability,
        status=EnvironmentStatus.UNRESOLVED,
        revision=revision if isinstance(revision, int) else None,
        handed_off=None if handed_off is None else str(handed_off),
    )
    if capability == RECIPE and "demand" not in record:
        return unresolved
    try:
        demand = _in_force(stored, capability, stored.demand_of(capability))
    except NewerSchema as error:
        return replace(unresolved, status=EnvironmentStatus.UNSUPPORTED, error=str(error))
    except Malformed as error:
        return replace(unresolved, status=EnvironmentStatus.MALFORMED, error=str(error))
    is_empty = demand.effective.is_empty
    status = EnvironmentStatus.UNSPECIFIED if is_empty else EnvironmentStatus.SPECIFIED
    return replace(
        unresolved,
        status=status,
        needs=demand.effective,
        sources=demand.sources(),
        required_by=_required_by(stored, capability, demand),
    )


def _required_by(stored: StoredExecution, capability: str, demand: Demand) -> dict[str, str] | None:
    """Who required what of the job: of the accepted suspensions before the route, the last for each property.

    That is, if the job has its value: the demand of a route stays as it was when the route was opened. None
    if the records of the suspensions are not at hand, as in a listing.
    """
    if not stored.checkpoints.keys() <= stored.records.keys():
        return None
    opened_at = None if capability == RECIPE else _call(stored.records[capability])[0]
    found: dict[str, tuple[str, str]] = {}
    for name in sorted(stored.checkpoints, key=lambda name: (*_call(stored.records[name]), name)):
        if opened_at is None or _call(stored.records[name])[0] < opened_at:
            found |= {asked: (name, text) for asked, text in _directive(stored, name).texts().items()}
    job = demand.job.texts()
    effective = demand.sources()
    return {
        asked: name
        for asked, (name, text) in found.items()
        if effective.get(asked) is Layer.JOB and job[asked] == text
    }


def _directive(stored: StoredExecution, capability: str) -> Needs:
    """What a task required; nothing, if that cannot be read any more. What was accepted of it holds."""
    try:
        return read_needs(stored.records[capability].get("directive"), where=capability)
    except Malformed:
        return NO_NEEDS


def _allocation_data(text: str) -> Any:
    """An allocation in its one-line form as plain data; as it is, if a newer version has written it."""
    try:
        return Allocation.parse(text).to_data()
    except InvalidInput:
        return text


def _in_force(stored: StoredExecution, capability: str, demand: Demand) -> Demand:
    """Without the scopes of a recipe once the coordinates that they were published for have a result."""
    if capability == RECIPE and demand.at is not None and _has_result(stored, demand.at):
        return demand.unscoped
    return demand


def _has_result(stored: StoredExecution, at: str) -> bool:
    record = stored.records.get(at)
    if record is not None:
        return record.get("invocation") == InvocationState.SETTLED
    # A listing has the records of what was in flight when it looked. The recipe's own tells whether that was
    # just before these coordinates were opened: it sleeps on them now.
    recipe = stored.records[RECIPE]
    awaited = (recipe.get("awaits") or {}).get("capability")
    return not (recipe.get("where") == RouteIndex.DUE and awaited == at)
