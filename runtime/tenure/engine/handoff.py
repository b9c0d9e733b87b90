"""What is told when a route is handed off: in this process to `on_handoff`, elsewhere through the outbox."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from tenure.model.allocation import Allocation
from tenure.model.demand import Demand, nested
from tenure.model.fit import Mismatch
from tenure.store.keys import route_member

ENVIRONMENT_REQUIRED: Final = "environment_required"


@dataclass(frozen=True, slots=True, kw_only=True)
class HandoffEvent:
    """A route was given back because it needs another environment. Not a completion, nor a failure.

    `mismatches` is empty when a task asked for the change itself (`ctx.suspend`) and this slot would do.
    """

    instance: str
    execution: str
    capability: str
    #: What a slot must have loaded for it: `task NAME` or `recipe NAME@VERSION`.
    code: str
    demand: Demand
    #: What the slot that handed off truly has.
    allocation: Allocation
    mismatches: tuple[Mismatch, ...]
    #: Whether this handoff has published the demand. One that was published before is only met again.
    published: bool
    kind: str = ENVIRONMENT_REQUIRED

    @property
    def route(self) -> str:
        """The route as indexes and agents name it: `instance/execution/capability`."""
        return route_member(self.instance, self.execution, self.capability)

    @property
    def key(self) -> str:
        """What names the demand: the same for all routes that want the same."""
        return f"{self.code} {self.demand.text}"

    def to_data(self) -> dict[str, Any]:
        """Plain data, as a provisioner gets it; demand, sources and allocation are nested alike."""
        return {
            "kind": self.kind,
            "instance": self.instance,
            "execution": self.execution,
            "capability": self.capability,
            "code": self.code,
            "key": self.key,
            "demand": self.demand.effective.to_data(),
            "sources": nested({name: layer.value for name, layer in self.demand.sources().items()}),
            "allocation": self.allocation.to_data(),
            "mismatches": [mismatch.to_data() for mismatch in self.mismatches],
            "published": self.published,
        }

    def arguments(self) -> Mapping[str, Any]:
        """What a script records of it, with the event for the outbox."""
        return {
            "reason": self.kind,
            "allocation": str(self.allocation),
            "mismatches": [str(mismatch) for mismatch in self.mismatches],
            "event": json.dumps(self.to_data(), separators=(",", ":")),
        }
