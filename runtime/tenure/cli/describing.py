"""What is stored about an execution, as the plain data that `--json` prints and tables are made of.

Every key is always there, with None for what does not apply, so that programs need not ask.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final

from tenure.client.environment import environment_of, route_demand
from tenure.client.starting import HIGHEST
from tenure.model.status import CapabilityStatus, is_terminal
from tenure.store.events import Event
from tenure.store.keys import RECIPE
from tenure.store.stored import StoredExecution, moment

Data = dict[str, Any]

#: The keys of a demand, for what demands nothing.
_NO_DEMAND: Final[Data] = dict.fromkeys(
    ("demand", "needs", "sources", "required_by", "revision", "handed_off", "demand_error")
)

#: Statuses in the order they are counted in: what has its outcome, then what is nearest to one.
_BY_OUTCOME: Final = sorted(
    CapabilityStatus, key=lambda s: (not is_terminal(s), -list(CapabilityStatus).index(s))
)


def header(stored: StoredExecution) -> Data:
    """One execution without its capabilities."""
    return {
        "id": stored.id,
        "instance": stored.instance,
        "recipe": stored.recipe,
        "version": stored.version,
        "status": stored.status.value,
        "reason": stored.reason.value if stored.reason else None,
        "correlation": stored.correlation,
        "priority": HIGHEST - stored.priority_band,
        "needs": stored.job_needs.to_data(),
        "environment": environment_of(stored).to_data(),
        "created_at": stored.created_at,
        "started_at": stored.started_at,
        "completed_at": stored.completed_at,
        "error": stored.error,
    }


def execution(stored: StoredExecution, result: Any) -> Data:
    """All of one execution. Its recipe's own route is apart from the capabilities, which are in order."""
    return {
        **header(stored),
        "recipe_route": capability(stored, RECIPE),
        "capabilities": capabilities(stored),
        "maps": [
            {
                "capability": one.capability,
                "size": one.size,
                "status": one.status,
                "counts": dict(one.counts),
                "unopened": one.unopened,
            }
            for one in maps(stored)
        ],
        "attempts": [attempt(record) for record in stored.attempts],
        "result": result,
    }


def capabilities(stored: StoredExecution) -> list[Data]:
    """The calls of tasks in the order the recipe made them, the items of a map each for itself."""
    return [
        capability(stored, name)
        for name, record in in_order(stored)
        if name != RECIPE and record.get("size") is None
    ]


def in_order(stored: StoredExecution) -> list[tuple[str, Mapping[str, Any]]]:
    """All records in the order of the recipe's calls, its own first."""
    return sorted(stored.records.items(), key=_order)


def capability(stored: StoredExecution, name: str) -> Data:
    """One record, with its demand as far as it can be read."""
    record = stored.records.get(name, {})
    progress = record.get("progress")
    demanded = route_demand(stored, name) if has_demand(name, record) else None
    return {
        "capability": name,
        "task": record.get("task"),
        "ordinal": record.get("ordinal"),
        "index": record.get("index"),
        "status": record.get("status"),
        "invocation": record.get("invocation"),
        "attempt": record.get("attempt"),
        "failures": record.get("failures"),
        "crashes": record.get("crashes"),
        "effects": record.get("effects"),
        **(_NO_DEMAND if demanded is None else demanded.to_data()),
        "where": record.get("where"),
        "queue": record.get("queue"),
        "session": record.get("session"),
        "since": _maybe(record.get("since")),
        "due_at": _maybe(record.get("due_at")),
        "started_at": _maybe(record.get("started_at")),
        "completed_at": _maybe(record.get("completed_at")),
        "progress": dict(zip(("done", "total", "message"), progress, strict=False)) if progress else None,
        "error": record.get("error") or record.get("cause"),
        "error_type": record.get("error_type"),
    }


def has_demand(name: str, record: Mapping[str, Any]) -> bool:
    """Whether a record is that of a route: recorded values and timers need no slot, and demand nothing."""
    return "demand" in record or bool(record.get("where")) or (name == RECIPE and bool(record))


def attempt(record: Mapping[str, Any]) -> Data:
    """One attempt that did not complete, with what ended it."""
    return {
        "capability": record.get("capability"),
        "attempt": record.get("attempt"),
        "outcome": record.get("outcome"),
        "cause": record.get("cause"),
        "session": record.get("session"),
        "started_at": _maybe(record.get("started_at")),
        "ended_at": _maybe(record.get("ended_at")),
    }


def event(one: Event) -> Data:
    """One event."""
    return {"seq": one.seq, "kind": one.kind, "at": one.at, "capability": one.capability, "data": one.data}


@dataclass(frozen=True, slots=True)
class MapSummary:
    """All items of one map at a glance."""

    capability: str
    ordinal: int
    size: int
    counts: Mapping[str, int]
    #: Items that have not been opened, since only so many are open at a time.
    unopened: int
    #: The first item that failed, with its error.
    error: str | None
    ended: bool

    @property
    def status(self) -> str:
        """Of the map as a whole."""
        if self.counts.get(CapabilityStatus.FAILED):
            return CapabilityStatus.FAILED
        if self.counts.get(CapabilityStatus.CANCELLED):
            return CapabilityStatus.CANCELLED
        is_complete = self.counts.get(CapabilityStatus.COMPLETED, 0) == self.size
        return CapabilityStatus.COMPLETED if is_complete else CapabilityStatus.RUNNING

    def __str__(self) -> str:
        parts = [f"{count} {status}" for status, count in self.counts.items()]
        if self.unopened:
            parts.append(f"{self.unopened} {'never opened' if self.ended else 'to come'}")
        return f"{self.size} items: {', '.join(parts)}"


def maps(stored: StoredExecution) -> list[MapSummary]:
    """The maps of an execution, in order."""
    members: dict[int, list[tuple[str, Mapping[str, Any]]]] = {}
    for name, record in sorted(stored.capabilities.items(), key=_order):
        if record.get("group") is not None:
            members.setdefault(int(record["group"]), []).append((name, record))
    return [
        _summary(name, record, members.get(int(record["ordinal"]), []), stored)
        for name, record in sorted(stored.capabilities.items(), key=_order)
        if record.get("size") is not None
    ]


def _summary(
    name: str,
    record: Mapping[str, Any],
    members: Iterable[tuple[str, Mapping[str, Any]]],
    stored: StoredExecution,
) -> MapSummary:
    found = Counter(str(member["status"]) for _, member in members)
    failed = [f"{who}: {member.get('error')}" for who, member in members if member["status"] == "failed"]
    size = int(record["size"])
    return MapSummary(
        capability=name,
        ordinal=int(record["ordinal"]),
        size=size,
        counts={status.value: found[status] for status in _BY_OUTCOME if found[status]},
        unopened=size - found.total(),
        error=failed[0] if failed else None,
        ended=stored.is_terminal or bool(failed),
    )


def _order(item: tuple[str, Mapping[str, Any]]) -> tuple[int, int, str]:
    name, record = item
    index = record.get("index")
    return int(record.get("ordinal") or 0), -1 if index is None else int(index), name


def _maybe(ms: int | None) -> datetime | None:
    return None if ms is None else moment(int(ms))
