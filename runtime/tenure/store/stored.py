"""What is stored about one execution, as one value, and how its bytes are read.

What cannot be read, or was written by a newer version, is an error that names the execution; its bytes are
kept (G17).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

import msgpack

from tenure.errors import Malformed, NewerSchema
from tenure.model.demand import Demand, read_needs
from tenure.model.needs import NO_NEEDS, Needs
from tenure.model.status import ExecutionStatus, RouteIndex, WaitingReason, is_terminal
from tenure.store.keys import RECIPE, SCHEMA

Record = Mapping[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredExecution:
    """The header of an execution and the records of its capabilities, read in one transaction."""

    instance: str
    id: str
    status: ExecutionStatus
    recipe: str
    version: str
    correlation: str
    priority_band: int
    created_at: datetime
    started_at: datetime | None
    completed_at: datetime | None
    error: str | None
    records: Mapping[str, Record]
    attempts: Sequence[Record]
    #: What was required explicitly, when it started or by its tasks since.
    job_needs: Needs = NO_NEEDS
    #: The suspensions that are in `job_needs`, as capability to the hash of its directive.
    checkpoints: Mapping[str, str] = field(default_factory=dict)
    #: Capabilities whose lease has lapsed and is not taken over yet.
    lapsed: frozenset[str] = frozenset()
    #: When it fails unless it has ended.
    deadline: datetime | None = None
    #: How it is to end, and why, once nothing stands in the way: {status, fields, at}.
    intent: Record | None = None

    @property
    def is_terminal(self) -> bool:
        """Whether nothing can follow."""
        return is_terminal(self.status)

    @property
    def capabilities(self) -> dict[str, Record]:
        """The records without the recipe's own."""
        return {name: record for name, record in self.records.items() if name != RECIPE}

    @property
    def reason(self) -> WaitingReason | None:
        """Why it is not finished; None when it is."""
        if self.is_terminal:
            return None
        if self.intent is not None:
            return WaitingReason.CANCELLING
        return WaitingReason.first(self.reason_of(name) for name, r in self.records.items() if r.get("where"))

    def demand_of(self, capability: str) -> Demand:
        """The published demand of a route. Raises `Malformed`, also if it never was published."""
        return demand_of(self.id, capability, self.records[capability])

    def reason_of(self, capability: str) -> WaitingReason:
        """Why one route waits; only of a route that is in an index."""
        if capability in self.lapsed:
            return WaitingReason.CRASH_CONCERN
        return WaitingReason.of(RouteIndex(self.records[capability]["where"]))


def demand_of(execution: str, capability: str, record: Record) -> Demand:
    """The published demand of a route, by its record. Raises `Malformed`, also if it never was published."""
    return Demand.read(record.get("demand"), where=subject_of_demand(execution, capability))


def subject_of_demand(execution: str, capability: str) -> str:
    """What an error about a demand begins with."""
    return f"execution {execution}: the demand of {capability}"


def unreadable_header(subject: str, schema: str | None) -> Malformed:
    """The error for an execution that is there and cannot be read; `schema`: its own, if not ours (G17)."""
    if schema is None:
        return Malformed(f"{subject}: its header cannot be read; the bytes are kept, and nothing acts on it")
    return NewerSchema(
        f"{subject} was written by a newer Tenure (schema {schema}); it stays as it is: upgrade this process"
    )


def read_stored(
    instance: str,
    execution: str,
    header: Mapping[bytes, bytes],
    records: Mapping[bytes, bytes],
    attempts: Any,
) -> StoredExecution:
    """Read what `HGETALL` gave of a header and records. Raises `Malformed`; the bytes are kept (G17)."""
    where = f"execution {execution}"
    try:
        if int(header[b"schema"]) != SCHEMA:
            raise unreadable_header(where, header[b"schema"].decode())
        return StoredExecution(
            instance=instance,
            id=execution,
            status=ExecutionStatus(header[b"status"].decode()),
            recipe=header[b"recipe"].decode(),
            version=header[b"version"].decode(),
            correlation=header[b"correlation"].decode(),
            priority_band=int(header[b"band"]),
            created_at=moment(int(header[b"created_at"])),
            started_at=_maybe(header.get(b"started_at")),
            completed_at=_maybe(header.get(b"completed_at")),
            error=header[b"error"].decode("utf-8", "replace") if b"error" in header else None,
            records=unpack_records(records, where),
            attempts=[unpack(raw, where) for raw in attempts],
            job_needs=_requirements(header[b"job_needs"].decode(), f"{where}: its requirements"),
            checkpoints=unpack(header[b"checkpoints"], where) if b"checkpoints" in header else {},
            deadline=_maybe(header.get(b"deadline")),
            intent=unpack(header[b"intent"], where) if b"intent" in header else None,
        )
    except (KeyError, ValueError, UnicodeDecodeError) as error:
        raise Malformed(f"{where}: its header cannot be read ({error}); the bytes are kept") from error


def _requirements(text: str, where: str) -> Needs:
    try:
        return read_needs(text, where=where)
    except NewerSchema as error:
        raise NewerSchema(f"{error}; it stays as it is: upgrade this process") from error
    except Malformed as error:
        raise Malformed(f"{error}; the bytes are kept; `tenure cancel` ends it") from error


def unpack_records(records: Mapping[bytes, bytes], where: str) -> dict[str, Record]:
    return {name.decode(): unpack(raw, where) for name, raw in records.items()}


def unpack(raw: bytes, where: str) -> dict[str, Any]:
    try:
        value = msgpack.unpackb(raw, unicode_errors="surrogateescape", strict_map_key=False)
    except (ValueError, msgpack.UnpackException) as error:
        reason = str(error) or type(error).__name__
        raise Malformed(
            f"{where}: a record cannot be read ({reason}); the bytes are kept; `tenure cancel` ends it"
        ) from error
    if not isinstance(value, dict):
        raise Malformed(f"{where}: a record is not a table; the bytes are kept")
    return value


def moment(ms: int) -> datetime:
    """An aware datetime from ms of the store's clock."""
    return datetime.fromtimestamp(ms / 1000, UTC)


def _maybe(raw: bytes | None) -> datetime | None:
    return None if raw is None else moment(int(raw))
