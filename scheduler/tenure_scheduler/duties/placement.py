"""Placement of parked work: routes nobody could admit go to the first queue that can.

What is parked costs nothing while the session registry stands still: a route is looked at when it is parked
by somebody who could not look everywhere (the `unplaced` set), and once for each change of the registry, by a
walk through the index. A walk notes the revision at which it began; if the registry has moved by its end,
another walk follows. A session that registers in the middle is so missed by nobody.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from tenure.engine.placement import Placement, Wanted, wanted_by
from tenure.engine.shortage import is_met, unmet
from tenure.errors import Malformed
from tenure.store.answers import PlaceAnswer
from tenure.store.duties import DutyStore
from tenure.store.executions import Executions
from tenure.store.keys import route_member, split_member
from tenure.store.sessions import RegistryView
from tenure.store.stored import Record
from tenure_scheduler.duties.complaints import Complaints
from tenure_scheduler.duties.pages import Walk
from tenure_scheduler.duties.report import Report

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class PlacementReport(Report):
    """`evicted`: routes taken back from queues without sessions. `stale`: the registry moved, look again."""

    evicted: int = 0
    placed: int = 0
    parked: int = 0
    stale: bool = False


class ParkedWork:
    """Takes back what waits in queues without sessions, and places what is parked: a page of each per run."""

    name = "placement"
    is_nudged = True

    def __init__(
        self, *, duties: DutyStore, executions: Executions, placement: Placement, limit: int = 100
    ) -> None:
        self._duties = duties
        self._executions = executions
        self._placement = placement
        self._limit = limit
        self._complaints = Complaints()
        # What an error has blocked is offered again too: a new session may bring other code.
        self._walks = [Walk(duties=duties, index=index) for index in ("environment", "blocked")]
        self._began: int | None = None
        self._walked: int | None = None
        self._emptied: dict[str, int] = {}
        self._leader: int | None = None
        self._looked: int | None = None
        self._told: set[Wanted] = set()

    def run_once(self, leader: int) -> PlacementReport:
        """Evict, then place."""
        if leader != self._leader:
            # Whoever led before may have had nobody to tell of what nobody meets.
            self._duties.forget_unmet()
            self._leader, self._walked, self._began = leader, None, None
        view = self._placement.view()
        if view.revision != self._looked:
            # What is met now is told of anew when it is lost again.
            self._duties.forget_unmet([name for name in self._duties.unmet() if is_met(view, name)])
            self._looked = view.revision
        evicted, more = self._evict(leader, view)
        page = _Page(leader, view, self._duties, self._complaints, self._told)
        unplaced = self._duties.unplaced(self._limit)
        for route, wanted in self._wanted(unplaced):
            page.place(route, wanted, keep_parked=False)
        more = more or len(unplaced) == self._limit
        if not page.stale and self._walked != view.revision:
            more = self._walk_on(page, view) or more
        return PlacementReport(
            evicted=evicted,
            placed=page.placed,
            parked=page.parked,
            malformed=page.malformed,
            stale=page.stale,
            more=more or page.stale,
        )

    def _evict(self, leader: int, view: RegistryView) -> tuple[int, bool]:
        evicted, more = 0, False
        for queue in view.queues:
            if queue.sessions or self._emptied.get(queue.name) == view.revision:
                continue
            try:
                moved = self._duties.evict(leader, queue.name, limit=self._limit)
            except Malformed as error:
                self._complaints.about(error)
                continue
            if moved is None:
                continue
            evicted += moved.routes
            if moved.left:
                more = True
            else:
                self._emptied[queue.name] = view.revision
        return evicted, more

    def _walk_on(self, page: _Page, view: RegistryView) -> bool:
        """One page of the walk; says whether there is more to walk."""
        if self._began is None:
            self._began = view.revision
            self._told.clear()
        more = False
        for walk in self._walks:
            for route, wanted in self._wanted(walk.page(self._limit)):
                page.place(route, wanted, keep_parked=True)
                if page.stale:
                    return True
            more = walk.advance(self._limit) or more
        if more:
            return True
        self._walked, self._began = self._began, None
        return self._walked != view.revision

    def _wanted(self, routes: Sequence[str]) -> Iterable[tuple[str, Wanted | Malformed | None]]:
        members = []
        for route in routes:
            try:
                members.append(split_member(route))
            except Malformed as error:
                yield route, error
        routes = [route_member(*member) for member in members]
        found = self._executions.routes(members)
        for route, (_, execution, capability), read in zip(routes, members, found, strict=True):
            match read:
                case Malformed():
                    yield route, read
                case (None, _):
                    yield route, None
                case (record, recipe):
                    yield route, _wanted_by(execution, capability, record, recipe)


class _Page:
    """One run's placing: counts, and the candidates computed so far."""

    def __init__(
        self,
        leader: int,
        view: RegistryView,
        duties: DutyStore,
        complaints: Complaints,
        told: set[Wanted],
    ) -> None:
        self._told = told
        self._leader = leader
        self._view = view
        self._duties = duties
        self._complaints = complaints
        self._candidates: dict[Wanted, list[tuple[str, int]]] = {}
        self.placed = self.parked = self.malformed = 0
        self.stale = False

    def place(self, route: str, wanted: Wanted | Malformed | None, *, keep_parked: bool) -> None:
        """Place one route. With `keep_parked`, one that no queue admits is left as it is, at no cost.

        But for the first of those that want the same: by it, what nobody meets is told of.
        """
        if self.stale:
            return
        if isinstance(wanted, Malformed):
            self._complain(route, wanted)
            return
        candidates = self._candidates_for(wanted) if wanted else []
        if wanted and keep_parked and not candidates:
            if wanted in self._told:
                self.parked += 1
                return
            self._told.add(wanted)
        try:
            answer = self._duties.place(
                self._leader,
                route,
                candidates,
                registry=self._view.revision,
                unmet=self._unmet(route, wanted) if wanted and not candidates else None,
            )
        except Malformed as error:
            self._complain(route, error)
            return
        self.placed += answer is PlaceAnswer.PLACED
        self.parked += answer is PlaceAnswer.PARKED
        self.stale = answer is PlaceAnswer.STALE

    def _candidates_for(self, wanted: Wanted) -> list[tuple[str, int]]:
        if wanted not in self._candidates:
            self._candidates[wanted] = Placement.candidates(self._view, wanted.needs, wanted.code)
        return self._candidates[wanted]

    def _unmet(self, route: str, wanted: Wanted) -> tuple[str, str]:
        instance, execution, capability = split_member(route)
        return unmet(self._view, wanted, instance=instance, execution=execution, capability=capability)

    def _complain(self, route: str, error: Malformed) -> None:
        self._complaints.about(error)
        self._duties.forget_unplaced(route)
        self.malformed += 1


def _wanted_by(execution: str, capability: str, record: Record, recipe: str) -> Wanted | Malformed:
    try:
        return wanted_by(execution, capability, record, recipe=recipe)
    except Malformed as error:
        return Malformed(f"{error}; it stays parked")
