"""Every Redis key, named once: its template, its type, and when it ends.

Python and Lua both take their keys from `FAMILIES`. The script loader turns each template into a
Lua function, so no script spells a key and the two languages cannot disagree.

Ids are scoped by instance in every key that holds an execution's data, so one instance cannot
reach another's by guessing an id.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from tenure.errors import Malformed
from tenure.model.status import RouteIndex


@dataclass(frozen=True, slots=True)
class KeyFamily:
    """`template` has `{ns}` for the namespace, `{rq}` for RQ's prefix, and the ids of its members."""

    template: str
    type: str
    holds: str
    ends: str

    @property
    def ids(self) -> tuple[str, ...]:
        """The ids a member of the family is named by, in order."""
        return tuple(name for name in re.findall(r"{(\w+)}", self.template) if name not in ("ns", "rq"))


_RETENTION = "with its execution, when retention deletes it"
_FOREVER = "never; one per namespace, of bounded size"
_DELIVERY = "when each is accepted, or dropped as too old"
_GARBAGE = "by expiry, a day after its last use"

FAMILIES: dict[str, KeyFamily] = {
    # One execution, by parts: a step touches only the parts it changes.
    "execution": KeyFamily("{ns}:x:{instance}:{execution}", "hash", "the header", _RETENTION),
    "records": KeyFamily(
        "{ns}:x:{instance}:{execution}:records", "hash", "capability (or `recipe`) to its record", _RETENTION
    ),
    "params": KeyFamily(
        "{ns}:x:{instance}:{execution}:params", "hash", "capability to parameters", _RETENTION
    ),
    "results": KeyFamily("{ns}:x:{instance}:{execution}:results", "hash", "capability to result", _RETENTION),
    "groups": KeyFamily(
        "{ns}:x:{instance}:{execution}:groups", "hash", "ordinal of a map to its group", _RETENTION
    ),
    "group_open": KeyFamily(
        "{ns}:x:{instance}:{execution}:open:{ordinal}",
        "set",
        "open members of a map",
        "when the map is settled",
    ),
    "attempts": KeyFamily(
        "{ns}:x:{instance}:{execution}:attempts",
        "list",
        "attempts that did not complete, oldest first",
        _RETENTION,
    ),
    "in_flight": KeyFamily(
        "{ns}:x:{instance}:{execution}:flight",
        "set",
        "capabilities in flight",
        "when the execution is terminal",
    ),
    "events": KeyFamily("{ns}:x:{instance}:{execution}:events", "list", "compact events, capped", _RETENTION),
    "tombstone": KeyFamily(
        "{ns}:gone:{instance}:{execution}", "string", "marks a deleted execution", _GARBAGE
    ),
    # The indexes of G19. A route of a live execution is in exactly one of them.
    "waiting": KeyFamily("{ns}:waiting:{queue}", "zset", "routes by priority, then age", _FOREVER),
    "leased": KeyFamily("{ns}:routes:leased", "zset", "routes by lease deadline, ms", _FOREVER),
    "due": KeyFamily("{ns}:routes:due", "zset", "routes by due time, ms", _FOREVER),
    "tasks": KeyFamily("{ns}:routes:tasks", "zset", "recipe routes whose tasks run, by since", _FOREVER),
    "input": KeyFamily("{ns}:routes:input", "zset", "routes that wait for a signal, by since", _FOREVER),
    "children": KeyFamily(
        "{ns}:routes:children", "zset", "routes that wait for children, by since", _FOREVER
    ),
    "environment": KeyFamily(
        "{ns}:routes:environment", "zset", "routes nobody can admit, by since", _FOREVER
    ),
    "unknown": KeyFamily(
        "{ns}:routes:unknown", "zset", "task routes whose outcome is unknown, by since", _FOREVER
    ),
    "blocked": KeyFamily("{ns}:routes:blocked", "zset", "routes stopped by an error, by since", _FOREVER),
    # Executions by owner and by end.
    "listing": KeyFamily(
        "{ns}:list:{instance}", "zset", "executions of an instance by creation, ms", _RETENTION
    ),
    "live": KeyFamily("{ns}:live", "zset", "executions that are not terminal, by creation, ms", _FOREVER),
    "terminal": KeyFamily("{ns}:terminal", "zset", "terminal executions by completion, ms", _RETENTION),
    "deadlines": KeyFamily("{ns}:deadlines", "zset", "live executions by deadline, ms", _FOREVER),
    # Sessions and queues.
    "registry": KeyFamily("{ns}:registry", "string", "revision of the session registry", _FOREVER),
    "sessions": KeyFamily("{ns}:sessions", "zset", "sessions by expiry, ms", _FOREVER),
    "session": KeyFamily("{ns}:session:{session}", "hash", "one session", _GARBAGE),
    "control": KeyFamily(
        "{ns}:session:{session}:control",
        "list",
        "what the session's agent is to stop",
        "by expiry, a minute later",
    ),
    "queues": KeyFamily("{ns}:queues", "set", "queue names", _FOREVER),
    "queue": KeyFamily(
        "{ns}:queue:{queue}", "hash", "pool, allocation and catalogue", "when its last session goes"
    ),
    "queue_sessions": KeyFamily(
        "{ns}:queue:{queue}:sessions", "set", "ready sessions", "when the last one goes"
    ),
    "queue_idle": KeyFamily(
        "{ns}:queue:{queue}:idle", "set", "slot lives with nothing to do", "with their lives"
    ),
    "unplaced": KeyFamily("{ns}:unplaced", "set", "parked routes that placement has not looked at", _FOREVER),
    # Slot lives: what each holds, and its last request with the answer it got.
    "life": KeyFamily("{ns}:life:{life}", "hash", "last request, its answer, whether closed", _GARBAGE),
    "life_routes": KeyFamily(
        "{ns}:life:{life}:routes", "set", "routes a slot life holds leases on", _GARBAGE
    ),
    # The scheduler.
    "leader": KeyFamily("{ns}:leader", "hash", "who leads, its token and deadline", _FOREVER),
    "server": KeyFamily("{ns}:server", "hash", "the server's run id and since when", _FOREVER),
    "shortage": KeyFamily("{ns}:shortage", "hash", "queue to tickets missing at the last sweep", _FOREVER),
    "nudge": KeyFamily("{ns}:nudge", "list", "wakes the leading scheduler, at most one entry", _FOREVER),
    # The outbox: events for a provisioner. One that cannot be read leaves the first and stays in the second.
    "outbox": KeyFamily("{ns}:outbox", "zset", "events by the time they are to be delivered, ms", _DELIVERY),
    "outbox_event": KeyFamily("{ns}:outbox:events", "hash", "event id to the event", _DELIVERY),
    "outbox_sequence": KeyFamily("{ns}:outbox:last", "string", "last event id", _FOREVER),
    "unmet": KeyFamily(
        "{ns}:unmet",
        "hash",
        "demands that nobody meets and that were told of",
        "when somebody meets it, or another scheduler leads",
    ),
    # Notification and the test clock.
    "feed": KeyFamily("{ns}:feed", "stream", "which execution has new events, capped", _FOREVER),
    "clock": KeyFamily(
        "{ns}:clock", "string", "ms added to the store's clock by a test build", "with the test"
    ),
    # RQ's own keys, as far as a ticket needs them.
    "ticket_sequence": KeyFamily("{ns}:tickets", "string", "last ticket number", _FOREVER),
    "ticket": KeyFamily("{rq}job:{ticket}", "hash", "one RQ job", "when RQ is done with it"),
    "tickets": KeyFamily("{rq}queue:{queue}", "list", "RQ's queue", "when empty"),
    "rq_queues": KeyFamily("{rq}queues", "set", "RQ's list of queues", "never; RQ owns it"),
}

#: The version of what is stored about an execution; a newer one is an error that keeps the bytes (G17).
SCHEMA = 1

#: The record of the recipe route lies beside those of the capabilities, under this name.
RECIPE = "recipe"


class Keys:
    """The keys of one namespace. `keys("execution", instance, id)` spells a member of a family."""

    def __init__(self, namespace: str, rq_prefix: str = "rq:") -> None:
        self.namespace = namespace
        self.rq_prefix = rq_prefix
        self._formats = {
            name: re.sub(
                r"{\w+}", "{}", family.template.replace("{ns}", namespace).replace("{rq}", rq_prefix)
            )
            for name, family in FAMILIES.items()
        }

    def __call__(self, family: str, *ids: str | int) -> str:
        return self._formats[family].format(*ids)

    def index(self, where: RouteIndex, queue: str | None = None) -> str:
        """The sorted set that holds the routes of one index (G19)."""
        return self("waiting", queue or "") if where is RouteIndex.WAITING else self(where.value)

    def queue_name(self, pool: str, digest: str) -> str:
        """RQ queue of one class of interchangeable slots. RQ allows letters, digits, `-` and `_`."""
        return f"{self.namespace}-{pool}-{digest}"

    def lua(self, families: set[str]) -> str:
        """Lua source of a table `Key` with one function per family named."""
        lines = [f"  {name} = {self._lua_function(FAMILIES[name])}," for name in sorted(families)]
        return "local Key = {\n" + "\n".join(lines) + "\n}\n"

    def _lua_function(self, family: KeyFamily) -> str:
        template = family.template.replace("{ns}", self.namespace).replace("{rq}", self.rq_prefix)
        parts = [part for part in re.split(r"({\w+})", template) if part]
        body = " .. ".join(part[1:-1] if part.startswith("{") else f"'{part}'" for part in parts)
        return f"function({', '.join(family.ids)}) return {body} end"


def route_member(instance: str, execution: str, capability: str) -> str:
    """How a route is named in an index: `instance/execution/capability`; no id contains a slash."""
    return f"{instance}/{execution}/{capability}"


def split_member(member: str) -> tuple[str, str, str]:
    """The inverse of `route_member`. Raises `Malformed` for what names no route."""
    parts = member.split("/", 2)
    if len(parts) != 3:  # noqa: PLR2004  # instance, execution, capability
        raise Malformed(f"{member!r} in an index names no route; nothing acts on it")
    return parts[0], parts[1], parts[2]
