"""What every part of the engine works with in one slot, and when the slot should stop taking work."""

from __future__ import annotations

import time
from dataclasses import dataclass, field

from tenure.engine.admission import Admission
from tenure.engine.demand import Demands
from tenure.engine.placement import Code, Placement
from tenure.engine.presence import Presence
from tenure.engine.workset import Workset
from tenure.errors import StoreUnreachable
from tenure.model.demand import Demand
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
    workset: Workset
    presence: Presence
    admission: Admission
    settings: Settings
    demands: Demands = field(default_factory=Demands)
    _deadline: float = 0.0
    _view: RegistryView | None = None
    _view_until: float = 0.0
    _candidates: dict[tuple[str, str], list[tuple[str, int]]] = field(default_factory=dict)
    _claims: bool = True

    def begin_turn(self, *, claims: bool) -> None:
        """A turn ends after `settings.chain`, so that RQ's loop gets its say.

        `claims`: whether the slot takes what waits in its queue as it gives something up.
        """
        self._deadline = time.monotonic() + self.settings.chain.total_seconds()
        self._claims = claims

    def stopping(self) -> bool:
        """Whether to take no further work: the turn is over, or the agent drains."""
        return time.monotonic() >= self._deadline or self.presence.draining()

    @property
    def takes_more(self) -> bool:
        """Whether to claim what waits in the queue."""
        return self._claims and not self.stopping()

    def candidates(self, demand: Demand, code: Code) -> list[tuple[str, int]]:
        """The queues that can admit a route, by a view of the registry that is a second old at most."""
        now = time.monotonic()
        if self._view is None or now >= self._view_until:
            self._look_again(now)
        assert self._view is not None  # noqa: S101  # it has just been read, or there was an older one
        key = (str(code), demand.text)
        known = self._candidates.get(key)
        if known is None:
            known = self._candidates[key] = Placement.candidates(self._view, demand.effective, code)
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
