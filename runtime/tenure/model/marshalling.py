"""An execution as bytes, and back: its snapshot with its blueprint beside it."""

from __future__ import annotations

import sys
from dataclasses import asdict
from typing import Any, Final

from pydantic import TypeAdapter, ValidationError

from tenure.errors import InvalidInput, Malformed
from tenure.model.blueprint import ExecutionBlueprint
from tenure.model.data import decode, encode
from tenure.model.execution import Execution
from tenure.model.snapshot import ExecutionSnapshot

#: The version of what lies inside; how it is packed has a version of its own, in `tenure.model.data`.
SNAPSHOT_SCHEMA: Final = 1

_SNAPSHOT: Final = TypeAdapter(ExecutionSnapshot)
_BLUEPRINT: Final = TypeAdapter(ExecutionBlueprint)


def marshal_execution(execution: Execution) -> bytes:
    """All of an execution as of one moment: msgpack with its schema version, times in UTC.

    Raises `NotPlainData` for text that is not Unicode.
    """
    # The id is apart, so that an error can name the execution even where the rest cannot be read (G17).
    data = {
        "schema": SNAPSHOT_SCHEMA,
        "id": execution.id,
        "snapshot": asdict(execution.snapshot()),
        "blueprint": asdict(execution.blueprint),
    }
    return encode(data, limit=sys.maxsize, where=f"execution {execution.id}")


def unmarshal_execution(data: bytes) -> Execution:
    """The execution that `marshal_execution` wrote. If it has ended, its `done` is set.

    Raises:
        Malformed: the bytes cannot be read, or were written by a newer Tenure.
    """
    envelope = decode(data, where="a marshalled execution")
    if not isinstance(envelope, dict) or not isinstance(envelope.get("id"), str):
        raise Malformed("a marshalled execution: the bytes are of something else")
    where = f"execution {envelope['id']}"
    if envelope.get("schema") != SNAPSHOT_SCHEMA:
        raise Malformed(
            f"{where} was written by a newer Tenure (snapshot schema {envelope.get('schema')!r}, and this is "
            f"{SNAPSHOT_SCHEMA}); upgrade this process"
        )
    snapshot, blueprint = _parts(envelope, where)
    execution = Execution(
        execution_id=snapshot.id,
        correlation_id=snapshot.correlation_id,
        instance_id=snapshot.instance_id,
        parent_execution_id=snapshot.parent_execution_id,
        blueprint=blueprint,
    )
    execution.restore(snapshot)
    return execution


def _parts(envelope: dict[str, Any], where: str) -> tuple[ExecutionSnapshot, ExecutionBlueprint]:
    try:
        return (
            _SNAPSHOT.validate_python(envelope.get("snapshot")),
            _BLUEPRINT.validate_python(envelope.get("blueprint")),
        )
    except (ValidationError, InvalidInput) as error:
        raise Malformed(f"{where}: its snapshot cannot be read ({error}); nothing was changed") from error
