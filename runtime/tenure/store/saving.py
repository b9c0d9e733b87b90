"""What is sent to save an execution of the model, and what the answers mean."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from dataclasses import asdict
from datetime import datetime
from typing import Any, Final, assert_never

from tenure.errors import ExecutionNotFound, IllegalTransition, LeaseLost, Malformed
from tenure.model.blueprint import ExecutionBlueprint
from tenure.model.data import encode
from tenure.model.demand import write_needs
from tenure.model.names import check_execution_id, check_instance_id
from tenure.model.needs import NO_NEEDS
from tenure.model.plain import Plain
from tenure.model.snapshot import CapabilityExecutionState, ExecutionSnapshot
from tenure.model.succession import moved_on, recorded_otherwise, taken
from tenure.store.answers import SaveAnswer
from tenure.store.keys import SCHEMA
from tenure.store.memory import deleted

#: The priority of what is started without one. Nothing that is saved is dispatched.
_BAND: Final = 4


def arguments_of(
    snapshot: ExecutionSnapshot, blueprint: ExecutionBlueprint, *, payload_limit: int
) -> dict[str, Any]:
    """What `save.lua` needs to know of an execution. `payload_limit` is in bytes.

    Raises InvalidInput for an id that does not follow its rule, PayloadTooLarge, NotPlainData.
    """
    where = f"execution {snapshot.id}"

    def encoded(payloads: Mapping[str, Plain], name: str, what: str) -> bytes | None:
        if name not in payloads:
            return None
        return encode(payloads[name], limit=payload_limit, where=f"{where}: {what}")

    begun = snapshot.started_at is not None or snapshot.initial_params
    header = _header(snapshot, blueprint)
    return {
        "instance": header["instance"],
        "execution": header["id"],
        "recipe": header["recipe"],
        "blueprint": header["blueprint"],
        "correlation": snapshot.correlation_id,
        "parent": snapshot.parent_execution_id,
        "header": [part for item in header.items() for part in item],
        "status": snapshot.status.value,
        "in_flight": snapshot.in_flight,
        "error": snapshot.error or None,
        "started_at": _ms(snapshot.started_at),
        "completed_at": _ms(snapshot.completed_at),
        "input": encoded({"input": snapshot.initial_params}, "input", "its input") if begun else None,
        "capabilities": [
            {
                "capability": name,
                "ordinal": ordinal,
                **_state(state),
                "params": encoded(snapshot.params, name, f"the parameters of {name}"),
                "result": encoded(snapshot.results, name, f"the result of {name}"),
            }
            for ordinal, (name, state) in enumerate(snapshot.states.items())
        ],
    }


def check_saved(execution: str, answer: SaveAnswer, reply: Mapping[str, Any]) -> None:
    """Raise what an answer stands for; the reply says more."""
    who, subject = f"execution {execution}", reply.get("subject")
    whose = who if subject is None else f"capability {subject} of {who}"
    match answer:
        case SaveAnswer.SAVED:
            return
        case SaveAnswer.EXISTS:
            raise taken(execution)
        case SaveAnswer.DELETED:
            raise ExecutionNotFound(deleted(execution))
        case SaveAnswer.LEASE_LOST:
            raise LeaseLost(
                f"{who}: what would change is leased and the token given is not of that lease, or nothing "
                "is leased and the token is a stale one; nothing was changed"
            )
        case SaveAnswer.MOVED_ON:
            raise moved_on(whose, reply["stored"], reply["given"])
        case SaveAnswer.RECORDED:
            raise recorded_otherwise(f"{whose}: its {reply['payload']}")
        case SaveAnswer.ENGINE_OWNED:
            raise IllegalTransition(f"{whose} is run by the engine, which alone makes it {reply['given']}")
        case SaveAnswer.IN_DOUBT:
            raise in_doubt(execution, str(subject))
        case SaveAnswer.UNREADABLE:
            raise unreadable(execution)
        case _:
            assert_never(answer)


def in_doubt(execution: str, capability: str) -> IllegalTransition:
    """The error for what would forget a task that may have had its effect."""
    return IllegalTransition(
        f"execution {execution}: {capability} has begun and may have had its effect; settle it first"
    )


def unreadable(execution: str) -> Malformed:
    """The error for stored bytes that a script cannot read."""
    return Malformed(f"execution {execution}: what is stored cannot be read; the bytes are kept")


def _header(snapshot: ExecutionSnapshot, blueprint: ExecutionBlueprint) -> dict[str, Any]:
    """The fields that every header has, and those of the model."""
    return {
        "instance": check_instance_id(snapshot.instance_id),
        "id": check_execution_id(snapshot.id),
        "recipe": blueprint.name,
        "version": "",
        # No input has this hash, so that starting a recipe under this id is always a conflict.
        "input_hash": "",
        "correlation": snapshot.correlation_id,
        "parent": snapshot.parent_execution_id,
        "blueprint": encode(asdict(blueprint), limit=sys.maxsize, where=f"execution {snapshot.id}"),
        "band": _BAND,
        "job_needs": write_needs(NO_NEEDS),
        "schema": SCHEMA,
    }


def _state(state: CapabilityExecutionState) -> dict[str, Any]:
    return {
        "status": None if state.status is None else state.status.value,
        "started_at": _ms(state.started_at),
        "completed_at": _ms(state.completed_at),
        "error": state.error or None,
    }


def _ms(moment: datetime | None) -> int | None:
    return None if moment is None else round(moment.timestamp() * 1000)
