"""What the engine asks before it acts on a lease. `tenure_workers` has the adapter that answers."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from tenure.model.allocation import Allocation
from tenure.model.needs import Needs
from tenure.store.grants import Grant


@dataclass(frozen=True, slots=True)
class Admitted:
    """This slot may act on the lease."""


@dataclass(frozen=True, slots=True)
class Handoff:
    """This slot lacks what the route needs: give it back untouched."""

    reason: str
    mismatches: Sequence[str]


class Admission(Protocol):
    """Compares demand with what one slot truly has."""

    @property
    def allocation(self) -> Allocation:
        """What one slot truly has."""

    def accept(self, grant: Grant) -> Admitted | Handoff:
        """Judge the published demand of a lease."""

    def fits(self, needs: Needs) -> bool:
        """Whether this slot meets `needs`."""

    def handed_off(self, grant: Grant, handoff: Handoff) -> None:
        """Called only after the store has acknowledged that the route was given back."""
