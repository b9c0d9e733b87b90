"""The demands of task calls, merged once and remembered.

A recipe asks for the same at nearly every call, and merging costs more than all else that a slot does for it.
"""

from __future__ import annotations

from typing import Final

from tenure.model.demand import Demand
from tenure.model.needs import Needs, overlay

_KEPT: Final = 256

Layers = tuple[Needs, tuple[Needs, ...], Needs, Needs, Needs]


class Demands:
    """The demands that layers of needs have made so far, in one slot."""

    def __init__(self) -> None:
        self._known: dict[tuple[int, ...], tuple[Layers, Demand]] = {}

    def of(self, base: Needs, scopes: tuple[Needs, ...], task: Needs, call: Needs, job: Needs) -> Demand:
        """The demand of a call in these scopes, from outside in; what the call adds wins over its task."""
        # By identity, which is quick: needs never change, and those kept here keep their ids to themselves.
        key = (id(base), *map(id, scopes), id(task), id(call), id(job))
        known = self._known.get(key)
        if known is None:
            if len(self._known) >= _KEPT:
                self._known.clear()
            demand = Demand(base, overlay(*scopes), overlay(task, call), job)
            known = self._known[key] = (base, scopes, task, call, job), demand
        return known[1]
