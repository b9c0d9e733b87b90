"""What every part of the engine works with in one slot, and when the slot should stop taking work."""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from typing import Any

from tenure.engine.admission import Admission
from tenure.engine.definitions import Definitions, TaskDefinition
from tenure.engine.demand import Demand, Demands
from tenure.engine.placement import Code, Placement
from tenure.engine.presence import Presence
from tenure.errors import StoreUnreachable
from tenure.settings import Settings
from tenure.store.executions import Executions
from tenure.store.leases import SlotLeases
from tenure.store.sessions import RegistryView

VIEW_SECONDS = 1.0


@dataclass(slots=True, kw_only=True)
class Bench:
    """The collaborators of one slot, passed to whatever works in it."""

    leases: SlotLeases
    executions: Executions
    placement: Placement
    definitions: Definitions
    presence: Presence
    admission: Admission
    settings: Settings
    demands: Demands = field(default_factory=Demands)
    _deadline: float = 0.0
    _view: RegistryView | None = None
    _view_until: float = 0.0
    _candidates: dict[tuple[str, str], list[tuple[str, int]]] = field(default_factory=dict)
    _fits: dict[str, bool] = field(default_factory=dict)

    def begin_turn(self) -> None:
        """A turn ends after `settings.chain`, so that RQ's loop gets its say."""
        self._deadline = time.monotonic() + self.settings.chain.total_seconds()

    def stopping(self) -> bool:
        """Whether to take no further work: the turn is over, or the agent drains."""
        return time.monotonic() >= self._deadline or self.presence.draining()

    def runs(self, task: TaskDefinition[..., Any], demand: Demand) -> bool:
        """Whether this slot has the task's code and meets its demand."""
        if self.definitions.tasks.get(task.name) is not task:
            return False
        known = self._fits.get(demand.text)
        if known is None:
            known = self._fits[demand.text] = self.admission.fits(demand.needs)
        return known

    def candidates(self, demand: Demand, code: Code) -> list[tuple[str, int]]:
        """The queues that can admit a route, by a view of the registry that is a second old at most."""
        now = time.monotonic()
        if self._view is None or now >= self._view_until:
            self._look_again(now)
        assert self._view is not None  # noqa: S101  # it has just been read, or there was an older one
        key = (str(code), demand.text)
        known = self._candidates.get(key)
        if known is None:
            known = self._candidates[key] = Placement.candidates(self._view, demand.needs, code)
        return known

    def _look_again(self, now: float) -> None:
        try:
            view = self.placement.view()
        except StoreUnreachable:
            # An older view will do: what it names is checked again by the step that opens a route.
            if self._view is None:
                raise
            return
        if self._view is None or view.revision != self._view.revision:
            self._candidates.clear()
        self._view, self._view_until = view, now + VIEW_SECONDS
