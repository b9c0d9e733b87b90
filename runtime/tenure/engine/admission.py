"""What the engine asks before it acts on a lease or runs a task; `tenure_workers` has the adapter.

The engine stages the demand in force before every task call; the guard of a task compares it with what the
slot has, and only when the store has said that the call is unfinished. So a completed call never asks for the
environment that it once ran in (G5).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from tenure.engine.definitions import TaskDefinition
from tenure.engine.handoff import HandoffEvent
from tenure.model.allocation import Allocation
from tenure.model.demand import Demand
from tenure.model.fit import Mismatch
from tenure.model.needs import Needs
from tenure.store.grants import Grant


@dataclass(frozen=True, slots=True)
class GuardedTask:
    """A task that runs in place only where what is staged for it is met."""

    definition: TaskDefinition[..., Any]
    #: What keeps this slot from what is staged for an execution, by its id; empty if the task may run here.
    lacks: Callable[[str], Sequence[Mismatch]]


class Admission(Protocol):
    """Compares demand with what one slot truly has (seed 000). It neither matches nor provisions."""

    @property
    def allocation(self) -> Allocation:
        """What one slot truly has."""

    def accept(self, lease: Grant, *, base: Needs | None = None) -> bool:
        """Whether this slot may act on a lease, by its published demand.

        If not, the route has been given back, and the handoff was reported. `base` is what the recipe
        declares: a recipe lease whose demand was never published is judged by that (preflight).

        Raises:
            Malformed: the published demand cannot be read; the lease is still held.
        """

    def stage(self, execution: str, demand: Demand) -> None:
        """Take note of the demand of the call that an execution comes to next."""

    def wrap_task(self, task: TaskDefinition[..., Any]) -> GuardedTask:
        """Guard a task by what is staged."""

    def compare(self, demand: Demand) -> Sequence[Mismatch]:
        """What keeps this slot from a demand."""

    def report(self, event: HandoffEvent) -> None:
        """Called only after the store has acknowledged that the route was given back."""
