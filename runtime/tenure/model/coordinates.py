"""Where a task call stands in its recipe, and the capability id that says so.

The parts are separated by ':', which no task name may contain, so reading an id back is exact.
"""

import re
from dataclasses import dataclass
from typing import Final, Self

from tenure.errors import InvalidInput
from tenure.model.names import check_task_name

# No leading zeros: two texts must never name the same coordinates.
_TEXT: Final = re.compile(r"(0|[1-9][0-9]{0,17}):([^:]+)(?::(0|[1-9][0-9]{0,17}))?")


@dataclass(frozen=True, slots=True, order=False)
class Coordinates:
    """The `ordinal`-th durable call of a recipe calls `task`; `index` tells the items of a map apart."""

    ordinal: int
    task: str
    index: int | None = None

    def __post_init__(self) -> None:
        check_task_name(self.task)
        if self.ordinal < 0 or (self.index is not None and self.index < 0):
            raise InvalidInput(f"coordinates count from 0, and {self.capability_id!r} has a negative number")

    @property
    def capability_id(self) -> str:
        """`"3:render"`, or `"3:render:17"` for an item of a map."""
        head = f"{self.ordinal}:{self.task}"
        return head if self.index is None else f"{head}:{self.index}"

    def __str__(self) -> str:
        return self.capability_id

    @classmethod
    def parse(cls, capability_id: str) -> Self:
        """Read a capability id back; any text that `capability_id` would not give is `InvalidInput`."""
        match = _TEXT.fullmatch(capability_id)
        if match is None:
            raise InvalidInput(
                f"{capability_id!r} is no capability id of a recipe: "
                "write ordinal:task or ordinal:task:index, for example '3:render:17'"
            )
        ordinal, task, index = match.groups()
        return cls(int(ordinal), task, None if index is None else int(index))
