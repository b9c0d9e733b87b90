"""From what is stored about an execution, by parts, to the execution as a value of the model."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from tenure.errors import InvalidInput, Malformed
from tenure.model.blueprint import ExecutionBlueprint
from tenure.model.data import decode
from tenure.model.execution import Execution
from tenure.model.snapshot import CapabilityExecutionState, ExecutionSnapshot
from tenure.model.status import CapabilityStatus
from tenure.store.keys import RECIPE
from tenure.store.stored import Record, StoredExecution, moment, read_stored

Hash = Mapping[bytes, bytes]


@dataclass(frozen=True, slots=True)
class StoredParts:
    """The parts as they were read, and how many routes are in flight. No header: no execution."""

    instance: str
    execution: str
    header: Hash
    records: Hash
    params: Hash
    results: Hash
    routes: int

    @property
    def created_at(self) -> datetime:
        """When it was stored first."""
        return moment(int(self.header[b"created_at"]))


def restored(parts: StoredParts) -> Execution:
    """The execution that the parts are of. Raises `Malformed`."""
    stored = read_stored(parts.instance, parts.execution, parts.header, parts.records, [])
    where = f"execution {parts.execution}"
    try:
        blueprint = _blueprint(stored, parts.header.get(b"blueprint"), where)
        snapshot = _snapshot(stored, parts, blueprint, where)
    except (InvalidInput, ValueError, TypeError, KeyError) as error:
        raise Malformed(f"{where}: what is stored cannot be read ({error}); the bytes are kept") from error
    execution = Execution(
        execution_id=snapshot.id,
        correlation_id=snapshot.correlation_id,
        instance_id=snapshot.instance_id,
        parent_execution_id=snapshot.parent_execution_id,
        blueprint=blueprint,
    )
    execution.restore(snapshot)
    return execution


def _blueprint(stored: StoredExecution, raw: bytes | None, where: str) -> ExecutionBlueprint:
    """The one stored; a recipe declares none, and has made the calls that are recorded."""
    if raw is None:
        return ExecutionBlueprint(stored.recipe, tuple(_calls(stored)))
    plain = decode(raw, where=where)
    return ExecutionBlueprint(plain["name"], tuple(plain["capabilities"]))


def _calls(stored: StoredExecution) -> dict[str, Record]:
    """The records of the capabilities in order. That of a map as a whole is none: its items are."""
    calls = {name: record for name, record in stored.capabilities.items() if record.get("size") is None}
    return dict(sorted(calls.items(), key=lambda call: _place(call[1])))


def _place(record: Record) -> tuple[int, int]:
    return int(record.get("ordinal") or 0), int(record.get("index") or 0)


def _snapshot(
    stored: StoredExecution, parts: StoredParts, blueprint: ExecutionBlueprint, where: str
) -> ExecutionSnapshot:
    params = _payloads(parts.params, f"{where}: the parameters of")
    results = _payloads(parts.results, f"{where}: the result of")
    # A capability without a record was never reached.
    states = {
        name: CapabilityExecutionState(status=CapabilityStatus.PENDING) for name in blueprint.capabilities
    }
    states |= {name: _state(record) for name, record in _calls(stored).items()}
    counted = parts.header.get(b"in_flight")
    return ExecutionSnapshot(
        id=stored.id,
        correlation_id=stored.correlation,
        instance_id=stored.instance,
        parent_execution_id=parts.header.get(b"parent", b"").decode(),
        status=stored.status,
        initial_params=params.pop(RECIPE, {}),
        params=params,
        # What a timer will bring is stored when it begins.
        results={
            name: result for name, result in results.items() if name == RECIPE or _is_completed(states, name)
        },
        states=states,
        in_flight=parts.routes if counted is None else int(counted),
        started_at=stored.started_at,
        completed_at=stored.completed_at,
        error=stored.error or "",
    )


def _is_completed(states: Mapping[str, CapabilityExecutionState], name: str) -> bool:
    return name in states and states[name].status is CapabilityStatus.COMPLETED


def _payloads(payloads: Hash, where: str) -> dict[str, Any]:
    return {name.decode(): decode(raw, where=f"{where} {name.decode()}") for name, raw in payloads.items()}


def _state(record: Record) -> CapabilityExecutionState:
    # Lua strings have no encoding: other bytes come as surrogates, and no text that is shown has those.
    error = str(record.get("error") or "").encode("utf-8", "surrogateescape").decode("utf-8", "replace")
    return CapabilityExecutionState(
        status=CapabilityStatus(record["status"]),
        started_at=_maybe(record.get("started_at")),
        completed_at=_maybe(record.get("completed_at")),
        error=error,
    )


def _maybe(ms: int | None) -> datetime | None:
    return None if ms is None else moment(int(ms))
