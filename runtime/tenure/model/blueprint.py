"""What an execution may consist of, as far as the model needs to know."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, Protocol

from tenure.errors import InvalidInput
from tenure.model.coordinates import Coordinates
from tenure.model.names import check_task_name

#: The store keeps the recipe's own route under this name, so no capability may have it.
RESERVED: Final = "recipe"


class HasCapabilities(Protocol):
    """Anything that names capabilities; it may have a `name` too."""

    @property
    def capabilities(self) -> tuple[str, ...]:
        """Their ids, in order."""
        ...


@dataclass(frozen=True, slots=True)
class ExecutionBlueprint:
    """A name, and the ids of its capabilities in order.

    Capabilities are named like tasks. Those of a recipe are its task calls, by coordinates ("3:render").
    """

    name: str
    capabilities: tuple[str, ...]

    def __post_init__(self) -> None:
        check_task_name(self.name, what="blueprint name")
        for capability in self.capabilities:
            _check_capability(capability)
        if len(set(self.capabilities)) != len(self.capabilities):
            raise InvalidInput(f"blueprint {self.name}: a capability is named twice; give each its own id")

    @classmethod
    def of(cls, blueprint: HasCapabilities) -> ExecutionBlueprint:
        """`blueprint` itself if it is one already, else the same in plain values."""
        if isinstance(blueprint, ExecutionBlueprint):
            return blueprint
        return cls(str(getattr(blueprint, "name", "blueprint")), tuple(blueprint.capabilities))


def _check_capability(capability: str) -> None:
    if capability == RESERVED:
        raise InvalidInput(
            f"{capability!r} is the name of the recipe's own route; name the capability otherwise"
        )
    if ":" in capability:
        Coordinates.parse(capability)
    else:
        check_task_name(capability, what="capability id")
