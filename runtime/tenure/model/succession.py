"""What may be saved over what is stored: only what the same execution can have come to since.

`save.lua` has the same rules for what is in Redis; one suite of tests holds both to them.
"""

from __future__ import annotations

import sys
from dataclasses import replace

from tenure.errors import ExecutionExists, IllegalTransition
from tenure.model.data import encode
from tenure.model.plain import Plain
from tenure.model.snapshot import CapabilityExecutionState, ExecutionSnapshot
from tenure.model.status import CapabilityStatus, Status, is_terminal, may_move


def successor(stored: ExecutionSnapshot, given: ExecutionSnapshot) -> ExecutionSnapshot:
    """What is stored once `given` is saved over `stored`: outcomes, times and payloads stay as recorded.

    Raises:
        ExecutionExists: they are different executions with the same id.
        IllegalTransition: a status would go where its table does not lead, or what is recorded would change.
    """
    if _identity(stored) != _identity(given):
        raise taken(given.id)
    subject = f"execution {given.id}"
    _check_leads(stored.status, given.status, subject)
    if _has_input(stored) and _has_input(given):
        _check_recorded(stored.initial_params, given.initial_params, f"{subject}: its input")
    changed = {one for one in given.states if _check_capability(stored, given, one, subject)}
    begun = stored if stored.started_at is not None else given
    return replace(
        stored if stored.status == given.status else given,
        initial_params=(stored if _has_input(stored) else given).initial_params,
        params=stored.params | {one: plain for one, plain in given.params.items() if one in changed},
        results=stored.results | {one: plain for one, plain in given.results.items() if one in changed},
        states=stored.states | {one: state for one, state in given.states.items() if one in changed},
        in_flight=given.in_flight,
        started_at=begun.started_at,
    )


def taken(execution: str) -> ExecutionExists:
    """The error for the id of another execution."""
    return ExecutionExists(
        f"execution {execution} exists already with another blueprint, parent or correlation id; "
        "nothing was changed. Use another id"
    )


def moved_on(subject: str, was: str, to: str) -> IllegalTransition:
    """The error for a status that cannot become what is given."""
    return IllegalTransition(
        f"{subject} is stored as {was} and cannot be saved as {to}; nothing was changed. "
        "Get it again, and apply the change to what is stored now"
    )


def recorded_otherwise(what: str) -> IllegalTransition:
    """The error for a recorded payload that would be changed (G4)."""
    return IllegalTransition(f"{what} is recorded already and is never altered; nothing was changed")


def _identity(snapshot: ExecutionSnapshot) -> tuple[str, ...]:
    return snapshot.instance_id, snapshot.id, snapshot.correlation_id, snapshot.parent_execution_id


def _status(state: CapabilityExecutionState | None) -> CapabilityStatus:
    return (state and state.status) or CapabilityStatus.PENDING


def _has_input(snapshot: ExecutionSnapshot) -> bool:
    return snapshot.started_at is not None or bool(snapshot.initial_params)


def _check_capability(
    stored: ExecutionSnapshot, given: ExecutionSnapshot, capability: str, subject: str
) -> bool:
    """Whether it has moved. Raises `IllegalTransition` if it may not have."""
    was, to = _status(stored.states.get(capability)), _status(given.states[capability])
    whose = f"capability {capability} of {subject}"
    if was != to and is_terminal(stored.status):
        raise moved_on(f"{whose}, which has ended,", was, to)
    _check_leads(was, to, whose)
    for recorded, new, what in (
        (stored.params, given.params, "the parameters"),
        (stored.results, given.results, "the result"),
    ):
        if capability in recorded and capability in new:
            _check_recorded(recorded[capability], new[capability], f"{subject}: {what} of {capability}")
    return was != to


def _check_leads(was: Status, to: Status, subject: str) -> None:
    if not _leads(was, to):
        raise moved_on(subject, was, to)


def _leads(was: Status, to: Status) -> bool:
    """Whether the table of moves leads from one to the other, in however many steps."""
    return was == to or any(may_move(was, step) and _leads(step, to) for step in type(was))


def _check_recorded(stored: Plain, given: Plain, what: str) -> None:
    # As bytes, as the store keeps them: 1, 1.0 and True are equal to each other.
    if _as_stored(stored) != _as_stored(given):
        raise recorded_otherwise(what)


def _as_stored(plain: Plain) -> bytes:
    return encode(plain, limit=sys.maxsize, where="it")
