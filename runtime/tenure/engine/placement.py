"""Where a route may go: the queues whose slots have its code and meet its demand, the tightest fit first.

Placement is computed against one revision of the session registry. A script refuses to park a route by an
older one, so a session that registers meanwhile leaves nothing parked.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

from tenure.model.demand import Demand
from tenure.model.fit import Mismatch, compare, surplus
from tenure.model.needs import Needs
from tenure.store.keys import RECIPE
from tenure.store.sessions import Catalogue, QueueFacts, RegistryView, Sessions
from tenure.store.stored import Record, demand_of


@dataclass(frozen=True, slots=True)
class Code:
    """What a slot must have loaded: a task by name, or a recipe as `name@version`."""

    task: str | None = None
    recipe: str | None = None

    def is_loaded(self, catalogue: Catalogue) -> bool:
        """Whether slots with this catalogue can act on the route."""
        if self.task is not None:
            return self.task in catalogue.tasks
        return self.recipe in catalogue.recipes

    def __str__(self) -> str:
        return f"task {self.task}" if self.task is not None else f"recipe {self.recipe}"


class Wanted(NamedTuple):
    """What decides where a route may go; what is equal here has equal candidates."""

    demand: Demand
    code: Code

    @property
    def needs(self) -> Needs:
        """What all layers of the demand come to."""
        return self.demand.effective


def wanted_by(execution: str, capability: str, record: Record, *, recipe: str) -> Wanted:
    """What a route wants, by its record; `recipe` is the execution's, as `name@version`.

    A recipe replays first, so no scope decides where it goes. One whose demand was never published goes
    wherever its code is: that says what it needs, and whoever leases it looks (preflight).

    Raises:
        Malformed: its demand, or its task, cannot be read.
    """
    if capability != RECIPE:
        demand = demand_of(execution, capability, record)
        return Wanted(demand, Code(task=str(record.get("task"))))
    code = Code(recipe=recipe)
    if "demand" not in record:
        return Wanted(Demand(), code)
    return Wanted(demand_of(execution, capability, record).unscoped, code)


@dataclass(frozen=True, slots=True)
class Verdict:
    """Why a queue can, or cannot, admit a route."""

    queue: QueueFacts
    code_missing: bool
    mismatches: tuple[Mismatch, ...]
    #: Whether it has handed this demand off, and is not offered it again.
    handed_off: bool = False

    @property
    def admits(self) -> bool:
        """Whether the queue can admit the route."""
        lacks = self.code_missing or self.mismatches or self.handed_off
        return not lacks and self.queue.sessions > 0


class Placement:
    """Computes candidates from a view of the registry that is read again when its revision moved."""

    def __init__(self, sessions: Sessions) -> None:
        self._sessions = sessions
        self._view: RegistryView | None = None

    def view(self) -> RegistryView:
        """The registry at its present revision; costs one small read when nothing changed."""
        if self._view is None or self._view.revision != self._sessions.revision():
            self._view = self._sessions.view()
        return self._view

    @staticmethod
    def candidates(view: RegistryView, needs: Needs, code: Code) -> list[tuple[str, int]]:
        """The queues that can admit the route, as (name, rank): equal fits share a rank."""
        fits = sorted(
            (surplus(needs, queue.allocation), queue.name)
            for queue in view.queues
            if judge(queue, needs, code).admits
        )
        ranks = {fit: rank for rank, fit in enumerate(sorted({fit for fit, _ in fits}))}
        return [(name, ranks[fit]) for fit, name in fits]

    @staticmethod
    def verdicts(
        view: RegistryView, needs: Needs, code: Code, *, avoid: Collection[str] = ()
    ) -> Sequence[Verdict]:
        """Every queue with what it lacks; those that almost fit come first. `avoid` have handed it off."""
        judged = [replace(judge(queue, needs, code), handed_off=queue.name in avoid) for queue in view.queues]
        return sorted(judged, key=lambda v: (v.code_missing, len(v.mismatches), v.handed_off, v.queue.name))


def judge(queue: QueueFacts, needs: Needs, code: Code) -> Verdict:
    """Compare one queue with a route."""
    return Verdict(queue, not code.is_loaded(queue.catalogue), compare(needs, queue.allocation))
