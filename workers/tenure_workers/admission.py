"""The admission adapter: it compares a lease's published demand with what this slot truly has (seed 000).

It neither matches nor provisions. An incompatible lease is given back with the same route and coordinates,
and only then is `on_handoff` told.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from tenure.engine.admission import Admitted, Handoff
from tenure.model.allocation import Allocation
from tenure.model.fit import compare
from tenure.model.needs import Needs
from tenure.store.grants import Grant

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class HandoffEvent:
    """A route was given back because this worker lacks what it needs. Not a completion, nor a failure."""

    kind: str
    execution: str
    route: str
    demand: Needs
    allocation: Allocation
    mismatches: Sequence[str]


class Admission:
    """Admits leases for one allocation."""

    def __init__(
        self, allocation: Allocation, on_handoff: Callable[[HandoffEvent], None] | None = None
    ) -> None:
        self.allocation = allocation
        self._on_handoff = on_handoff
        self._fits: dict[str, bool] = {}

    def accept(self, grant: Grant) -> Admitted | Handoff:
        """Judge the published demand of a lease. Raises `Malformed` if it cannot be read (G17)."""
        mismatches = compare(Needs.from_data(grant.needs), self.allocation)
        return Handoff("environment_required", [str(m) for m in mismatches]) if mismatches else Admitted()

    def fits(self, needs: Needs) -> bool:
        """Whether this slot meets `needs`. Remembered, since a recipe asks for every task call."""
        text = str(needs)
        known = self._fits.get(text)
        if known is None:
            known = self._fits[text] = not compare(needs, self.allocation)
        return known

    def handed_off(self, grant: Grant, handoff: Handoff) -> None:
        """Tell `on_handoff`. The store has acknowledged that the route was given back."""
        log.info(
            "handed off %s of %s: %s",
            grant.capability,
            grant.execution,
            "; ".join(handoff.mismatches),
            extra={"execution": grant.execution, "capability": grant.capability, "token": grant.token},
        )
        if self._on_handoff is not None:
            self._on_handoff(
                HandoffEvent(
                    kind=handoff.reason,
                    execution=grant.execution,
                    route=grant.route,
                    demand=Needs.from_data(grant.needs),
                    allocation=self.allocation,
                    mismatches=handoff.mismatches,
                )
            )
