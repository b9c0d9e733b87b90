"""How a read-only replay ends, and whether that is the end that is recorded."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from tenure.engine.attempt import describe
from tenure.engine.changes import changed, differing, raised, shown, spelled
from tenure.engine.definitions import RecipeDefinition
from tenure.errors import Malformed, MissReason, NonDeterministicRecipe, ReplayCacheMiss
from tenure.model.data import decode, input_hash
from tenure.model.status import CapabilityStatus, ExecutionStatus
from tenure.store.keys import RECIPE
from tenure.store.recordings import Recording
from tenure.store.stored import StoredExecution

if TYPE_CHECKING:
    from tenure.engine.replay import ReplayFrame

#: What tells errors apart in a record: a type, or the call that failed. The text after it may differ, as one
#: with an address in it does.
_KIND: Final = re.compile(r"([^\W\d]\w*|task \S+ (failed|was cancelled)): ")


@dataclass(frozen=True, slots=True, kw_only=True)
class Replayed:
    """The replay has come to the end that is recorded."""

    execution: str
    status: ExecutionStatus
    #: How many calls were answered from the record.
    calls: int
    #: What a completed execution returned, as its recipe declares it.
    result: Any = None
    #: Why an execution failed or was cancelled, as recorded.
    error: str | None = None
    #: What the recipe raised, if that is not `error` to the letter.
    raised: str | None = None


@dataclass(frozen=True, slots=True)
class Stopped:
    """The record has no more, or other things than the recipe asks for, or cannot be read."""

    error: ReplayCacheMiss | NonDeterministicRecipe | Malformed


@dataclass(frozen=True, slots=True)
class Raised:
    """The recipe raises what is not recorded; a worker would fail the execution with it."""

    error: BaseException


Ending = Replayed | Stopped | Raised


def ended_from_outside(stored: StoredExecution) -> bool:
    """Whether an end came from elsewhere, wherever the recipe was: a cancellation, a deadline, crashes.

    Raises:
        Malformed: the records do not say.
    """
    if stored.status is ExecutionStatus.CANCELLED:
        return True
    if stored.status is not ExecutionStatus.FAILED or stored.completed_at is None:
        return False
    route = stored.records[RECIPE]
    try:
        return (
            (stored.deadline is not None and stored.completed_at >= stored.deadline)
            or route["crashes"] >= route["crash_limit"]
            # A recipe that comes to its own end has no call open. Members of maps are closed by one another.
            or any(
                record["status"] == CapabilityStatus.CANCELLED and record.get("group") is None
                for record in stored.capabilities.values()
            )
        )
    except (KeyError, TypeError) as error:
        raise Malformed(
            f"execution {stored.id}: a record cannot be read ({error!r}); the bytes are kept"
        ) from error


def compare_result(
    payload: bytes, frame: ReplayFrame, recording: Recording, definition: RecipeDefinition[Any]
) -> Replayed:
    """The recipe returned: compare that with the end that is recorded."""
    stored, where = recording.stored, f"execution {frame.execution}"
    frame.records.check_all_asked(frame.ordinals)
    returned = decode(payload, where=f"{where}: what its recipe returned")
    if stored.status is ExecutionStatus.FAILED and not ended_from_outside(stored):
        raise changed(
            frame.execution,
            RECIPE,
            f"the recipe now returns {shown(spelled(returned))}, but it is recorded that it failed: "
            f"{shown(stored.error or '')}",
        )
    recorded = recording.results.get(RECIPE)
    if stored.status is not ExecutionStatus.COMPLETED or recorded is None:
        raise frame.miss(RECIPE, MissReason.JOB_RESULT_MISSING, "has no recorded result")
    plain = decode(recorded, where=f"{where}: its result")
    if input_hash(plain) != input_hash(returned):
        now, was = differing(spelled(returned), spelled(plain))
        raise changed(
            frame.execution,
            RECIPE,
            f"the recipe now returns {now}, but another result is recorded: {was}",
        )
    result = definition.signature.load_result(plain)
    return Replayed(execution=stored.id, status=stored.status, calls=frame.answered, result=result)


def compare_error(error: BaseException, frame: ReplayFrame, recording: Recording) -> Replayed | Raised:
    """The recipe raised: compare that with the end that is recorded."""
    stored = recording.stored
    if isinstance(error, Malformed):
        raise error
    if stored.status is ExecutionStatus.COMPLETED:
        raise changed(
            frame.execution,
            RECIPE,
            f"the recipe now raises {shown(raised(error))}, but it is recorded that it completed",
        ) from error
    if stored.is_terminal:
        return _compare_failure(error, frame, stored)
    if stored.intent is not None:
        # It is being ended, and no worker replays it any more.
        raise frame.miss(RECIPE, MissReason.JOB_RESULT_MISSING, "has no recorded result")
    return Raised(error)


def _compare_failure(error: BaseException, frame: ReplayFrame, stored: StoredExecution) -> Replayed:
    frame.records.check_all_asked(frame.ordinals)
    now, was = describe(error), stored.error or ""
    if not ended_from_outside(stored) and _kind(now) != _kind(was):
        asked, recorded = differing(now, was)
        raise changed(
            frame.execution,
            RECIPE,
            f"the recipe now raises {asked}, but it is recorded that it failed otherwise: {recorded}",
        ) from error
    return Replayed(
        execution=stored.id,
        status=stored.status,
        calls=frame.answered,
        error=was,
        raised=None if now == was else now,
    )


def _kind(said: str) -> str | None:
    found = _KIND.match(said)
    return found and found[1]
