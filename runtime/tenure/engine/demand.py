"""What a task call needs in all, merged once and remembered.

A recipe asks for the same at nearly every call, and merging costs more than all else that a slot does for it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final, Self

from tenure.model.needs import Needs, overlay

_KEPT: Final = 256


@dataclass(frozen=True, slots=True)
class Demand:
    """Merged needs with the two forms in which they are asked for again and again."""

    needs: Needs
    #: As it is stored.
    data: Mapping[str, Any]
    text: str

    @classmethod
    def of(cls, needs: Needs) -> Self:
        """The demand that `needs` make by themselves."""
        return cls(needs, needs.to_data(), str(needs))


class Demands:
    """The demands that layers of needs have made so far, in one slot."""

    def __init__(self) -> None:
        self._known: dict[tuple[int, ...], tuple[tuple[Needs, ...], Demand]] = {}

    def of(self, *layers: Needs) -> Demand:
        """Lay needs over each other; the later layer wins."""
        # By identity, which is quick: needs never change, and those kept here keep their ids to themselves.
        key = tuple(map(id, layers))
        known = self._known.get(key)
        if known is None:
            if len(self._known) >= _KEPT:
                self._known.clear()
            known = self._known[key] = layers, Demand.of(overlay(*layers))
        return known[1]
