"""Why an execution is not moving: the reason, since when, what would change it, and the nearest workers."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from tenure.client.environment import EnvironmentStatus, RouteDemand, route_demand
from tenure.engine.placement import Placement, Verdict, wanted_by
from tenure.model.status import ExecutionStatus, RouteIndex, WaitingReason
from tenure.store.keys import RECIPE
from tenure.store.sessions import RegistryView
from tenure.store.stored import Record, StoredExecution, moment, subject_of_demand

NEAREST = 3

#: What only a scheduler moves. A route that is ready may have lost its ticket, or its workers.
NEED_A_SCHEDULER = frozenset(
    {
        WaitingReason.AWAITING_ENVIRONMENT,
        WaitingReason.AWAITING_TIME,
        WaitingReason.CRASH_CONCERN,
        WaitingReason.READY,
    }
)

#: Where a route is that does not wait for a slot, so that a demand which cannot be read is not what stops it.
_SAYS_MORE = frozenset({RouteIndex.LEASED, RouteIndex.BLOCKED, RouteIndex.UNKNOWN})


@dataclass(frozen=True, slots=True)
class Nearest:
    """A class of slots that almost fits a route; in words, with who asks for what is missing."""

    verdict: Verdict
    demand: RouteDemand

    def __str__(self) -> str:
        verdict = self.verdict
        lacks = [m.asked_by(self.demand.asked_by(m.property)) for m in verdict.mismatches]
        if verdict.code_missing:
            lacks.insert(0, "its code is not loaded")
        if verdict.handed_off and not lacks:
            lacks.append("it has handed this off, and is not offered it again unless its demand changes")
        if not verdict.queue.sessions:
            lacks.insert(0, "no session is ready")
        return f"pool {verdict.queue.pool} ({verdict.queue.name}): {'; '.join(lacks) or 'fits'}"

    def to_data(self) -> dict[str, Any]:
        """Plain data for --json."""
        return {
            "pool": self.verdict.queue.pool,
            "queue": self.verdict.queue.name,
            "sessions": self.verdict.queue.sessions,
            "code_missing": self.verdict.code_missing,
            "handed_off": self.verdict.handed_off,
            "mismatches": [mismatch.to_data() for mismatch in self.verdict.mismatches],
        }


@dataclass(frozen=True, slots=True)
class RouteExplanation:
    """Why one route waits."""

    capability: str
    reason: WaitingReason
    since: datetime
    detail: str
    remedy: str
    demand: RouteDemand
    nearest: Sequence[Nearest]


@dataclass(frozen=True, slots=True)
class Explanation:
    """The answer to "why is it not moving"; `routes` begins with what the execution waits for first."""

    execution: str
    status: ExecutionStatus
    reason: WaitingReason | None
    since: datetime
    summary: str
    routes: Sequence[RouteExplanation]

    def to_data(self) -> dict[str, Any]:
        """Plain data for --json."""
        return {
            "execution": self.execution,
            "status": self.status.value,
            "reason": self.reason.value if self.reason else None,
            "since": self.since.isoformat(),
            "summary": self.summary,
            "routes": [
                {
                    "capability": r.capability,
                    "reason": r.reason.value,
                    "since": r.since.isoformat(),
                    "detail": r.detail,
                    "remedy": r.remedy,
                    **r.demand.to_data(),
                    "nearest": [one.to_data() for one in r.nearest],
                }
                for r in self.routes
            ],
        }


def explain(stored: StoredExecution, view: RegistryView, *, led: bool) -> Explanation:
    """Explain one execution as read from the store, by the present workers; `led`: a scheduler leads."""
    routes = [
        _explain_route(stored, capability, record, view)
        for capability, record in stored.records.items()
        if record.get("where")
    ]
    order = list(WaitingReason)
    routes.sort(key=lambda r: (order.index(r.reason), r.capability != RECIPE, r.since))
    since = stored.completed_at or (routes[0].since if routes else stored.created_at)
    return Explanation(
        stored.id, stored.status, stored.reason, since, _summary(stored, routes, led=led), routes
    )


def _ending(stored: StoredExecution, routes: Sequence[RouteExplanation]) -> str:
    intent = stored.intent or {}
    why = (intent.get("fields") or {}).get("error")
    left = [r.capability for r in routes if r.capability != RECIPE]
    waits = f"; it waits for {', '.join(left)}" if left else ""
    return f"it is to end as {intent.get('status')} ({why}){waits}"


def _summary(stored: StoredExecution, routes: Sequence[RouteExplanation], *, led: bool) -> str:
    if stored.is_terminal:
        return f"it ended as {stored.status}" + (f": {stored.error}" if stored.error else "")
    if stored.intent is not None:
        return _ending(stored, routes)
    if not routes and RECIPE not in stored.records:
        return "it was stored through the model, and no recipe of it runs here; whoever stored it moves it"
    if not routes:
        return (
            "no route of it is in any index; the scheduler's index repair puts it back, so start a scheduler"
        )
    said = [_sentence(routes[0])]
    if routes[0].reason is WaitingReason.AWAITING_TASKS:
        # What the recipe waits for says more than that it waits.
        said += [_sentence(route) for route in routes[1:2]]
    if not led and any(route.reason in NEED_A_SCHEDULER and not route.demand.error for route in routes):
        said.append("no scheduler is leading, and it takes one to move this: start `tenure scheduler`")
    return "; ".join(said)


def _sentence(route: RouteExplanation) -> str:
    return f"{route.detail}; {route.remedy}" if route.remedy else route.detail


def _explain_route(
    stored: StoredExecution, capability: str, record: Record, view: RegistryView
) -> RouteExplanation:
    where, demand = RouteIndex(record["where"]), route_demand(stored, capability)
    verdicts = () if demand.error else _verdicts(stored, capability, record, view)
    detail, remedy = _words(stored, record, verdicts, demand)
    if capability in stored.lapsed:
        detail = f"the lease that session {record.get('session')} had on {capability} has lapsed"
        remedy = "a scheduler takes it over within seconds; start one if none runs"
    elif demand.error and where not in _SAYS_MORE:
        detail, remedy = _unreadable(stored.id, demand)
    is_parked = where is RouteIndex.ENVIRONMENT
    nearest = [Nearest(v, demand) for v in verdicts[:NEAREST]] if is_parked else []
    since = moment(int(record["since"]))
    return RouteExplanation(capability, stored.reason_of(capability), since, detail, remedy, demand, nearest)


def _verdicts(
    stored: StoredExecution, capability: str, record: Record, view: RegistryView
) -> Sequence[Verdict]:
    wanted = wanted_by(stored.id, capability, record, recipe=f"{stored.recipe}@{stored.version}")
    # Lua packs an empty table as a list.
    return Placement.verdicts(view, wanted.needs, wanted.code, avoid=record.get("avoid") or ())


def _unreadable(execution: str, demand: RouteDemand) -> tuple[str, str]:
    """No worker acts on a demand that it cannot read, so there is none to wait for."""
    # Of which execution and route is said around it.
    why = str(demand.error).removeprefix(f"{subject_of_demand(execution, demand.capability)}: ")
    detail = f"what {_subject(demand.capability)} demands is {demand.status}: {why}"
    if demand.status is EnvironmentStatus.UNSUPPORTED:
        return detail, "upgrade this process, the workers and the schedulers to the version that wrote it"
    return detail, "its bytes are kept and nothing runs by them; `tenure cancel` ends it"


def _subject(capability: str) -> str:
    return "the recipe" if capability == RECIPE else capability


def _due(record: Any) -> str:
    return f"{moment(int(record.get('due_at') or record['since'])):%Y-%m-%d %H:%M:%S} UTC"


def _last_failure(stored: StoredExecution, capability: str) -> str:
    for attempt in reversed(stored.attempts):
        if attempt.get("capability") == capability:
            return f" for another attempt, after attempt {attempt['attempt']} ended with {attempt['cause']}"
    return ""


def _words(
    stored: StoredExecution, record: Record, verdicts: Sequence[Verdict], demand: RouteDemand
) -> tuple[str, str]:
    """What to say, and what would change it."""
    capability = demand.capability
    subject = _subject(capability)
    queue, session = record.get("queue"), record.get("session")
    words: dict[RouteIndex, tuple[str, str]] = {
        RouteIndex.WAITING: (
            f"{subject} waits in queue {queue}",
            "a free slot there takes it; add workers if it stays",
        ),
        RouteIndex.LEASED: (f"{subject} is being worked on by session {session}", ""),
        RouteIndex.DUE: (f"{subject} waits until {_due(record)}{_last_failure(stored, capability)}", ""),
        RouteIndex.TASKS: (f"{subject} waits for {_awaited(record)}", ""),
        RouteIndex.UNKNOWN: (
            f"{subject} was started and its worker is gone ({record.get('cause')}); its end is not known",
            "it is never run again on a guess, and this version has no command yet that settles it",
        ),
        RouteIndex.BLOCKED: (
            f"{subject} is stopped: {record.get('error')}",
            "workers that register with other code are offered it; `tenure cancel` ends it",
        ),
        RouteIndex.ENVIRONMENT: (f"no worker can take {subject}", _missing(verdicts, demand)),
        RouteIndex.INPUT: (f"{subject} waits for a signal", "send it"),
        RouteIndex.CHILDREN: (f"{subject} waits for its children", ""),
    }
    return words[RouteIndex(record["where"])]


def _awaited(record: Any) -> str:
    awaits = record.get("awaits") or {}
    return str(awaits.get("capability") or f"map {awaits.get('group')}")


def _missing(verdicts: Sequence[Verdict], demand: RouteDemand) -> str:
    if not verdicts:
        return "no worker is running; start one with `tenure worker`"
    if any(v.admits for v in verdicts):
        return "one that can has come meanwhile; a scheduler places it within a second"
    if all(v.code_missing for v in verdicts):
        return "no running worker has loaded its code; start one with --import and its module"
    return f"the nearest: {Nearest(verdicts[0], demand)}"
