"""Read-only replay: a recipe runs again over its record, and ends where the record does (G13).

The frame has one recording in memory and nothing else: no store, no lease, no session. So there is nothing by
which it could write, wait or run a task; whatever a recipe asks for is in the recording, or ends the replay.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta
from itertools import takewhile
from typing import Any, NoReturn

from tenure.engine.attempt import describe
from tenure.engine.definitions import RecipeDefinition
from tenure.engine.demand import Demands
from tenure.engine.frame import Frame
from tenure.engine.records import REMEDY, Call, Found, Records
from tenure.engine.run import run_recipe
from tenure.engine.signals import ReplayOver
from tenure.errors import (
    Malformed,
    MissReason,
    NonDeterministicRecipe,
    ReplayCacheMiss,
    TaskCancelled,
    TaskFailed,
)
from tenure.model.data import decode, input_hash
from tenure.model.demand import Demand
from tenure.model.needs import NO_NEEDS, Needs
from tenure.model.plain import Plain
from tenure.model.status import CapabilityStatus, ExecutionStatus, InvocationState
from tenure.store.executions import StoredExecution
from tenure.store.keys import RECIPE
from tenure.store.recordings import Recording

#: What a message shows of a result: so many characters, of which so many come before the first difference.
_SHOWN, _BEFORE = 120, 30


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplayedCall:
    """A call of the recipe that was answered from the record."""

    capability: str
    #: The name of the task, or "now", "uuid" or "sleep".
    task: str
    ordinal: int
    #: completed, failed or cancelled.
    outcome: CapabilityStatus
    #: The number of items of a map.
    size: int | None
    #: What was in force at the call, by layer.
    demand: Demand
    #: What the recipe was told when it failed or was cancelled.
    error: str | None


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


@dataclass(frozen=True, slots=True)
class Stopped:
    """The record has no more, or other things than the recipe asks for, or cannot be read."""

    error: ReplayCacheMiss | NonDeterministicRecipe | Malformed


@dataclass(frozen=True, slots=True)
class Raised:
    """The recipe's own code raises what is not recorded; a worker would fail the execution with it."""

    error: BaseException


Ending = Replayed | Stopped | Raised
Observer = Callable[[ReplayedCall], object]


def replay(
    definition: RecipeDefinition[Any],
    recording: Recording,
    *,
    observer: Observer | None = None,
    payload_limit: int,
) -> Ending:
    """Run a recipe over a recording of an execution with a recipe route. Raises what `observer` does."""
    try:
        frame = ReplayFrame(recording, _base(definition, recording), observer)
        return _run(definition, recording, frame, payload_limit=payload_limit)
    except (ReplayCacheMiss, NonDeterministicRecipe, Malformed) as error:
        return Stopped(error)


def _run(
    definition: RecipeDefinition[Any], recording: Recording, frame: ReplayFrame, *, payload_limit: int
) -> Replayed | Raised:
    raised: BaseException | None = None
    try:
        payload = run_recipe(definition, frame, recording.params, payload_limit=payload_limit)
    except KeyboardInterrupt:
        raise
    except BaseException as error:  # noqa: BLE001  # a recipe may raise anything
        raised = error
    if frame.over is not None:
        # What a recipe makes of the signal, if it has swallowed it, is discarded.
        raise frame.over.error
    if raised is not None:
        return _compare_error(raised, frame, recording)
    return _compare_result(payload, frame, recording, definition)


def ended_from_outside(stored: StoredExecution) -> bool:
    """Whether an end came from elsewhere, wherever the recipe was: a cancellation, a deadline, crashes."""
    if stored.status is ExecutionStatus.CANCELLED:
        return True
    if stored.status is not ExecutionStatus.FAILED or stored.completed_at is None:
        return False
    route = stored.records[RECIPE]
    return (
        (stored.deadline is not None and stored.completed_at >= stored.deadline)
        or route["crashes"] >= route["crash_limit"]
        # A recipe that comes to its own end has no call open. Members of maps are closed by one another.
        or any(
            record["status"] == CapabilityStatus.CANCELLED and record.get("group") is None
            for record in stored.capabilities.values()
        )
    )


class ReplayFrame(Frame):
    """A frame that ends where nothing is recorded. `observer` is told of each call that is answered."""

    def __init__(self, recording: Recording, base: Needs, observer: Observer | None) -> None:
        stored = recording.stored
        super().__init__(
            instance=stored.instance,
            execution=stored.id,
            correlation=stored.correlation,
            records=Records(stored.id, stored.records, recording.results),
            base=base,
            job=stored.job_needs,
            checkpoints=stored.checkpoints,
            demands=Demands(),
        )
        self._stored = stored
        self._observer = observer
        self._staged: Demand | None = None
        #: How many calls the recipe has made, and how many of them were answered.
        self.ordinals = self.answered = 0
        #: The signal that ended the frame, once one has.
        self.over: ReplayOver | None = None

    def miss(self, capability: str, reason: MissReason, lack: str) -> ReplayCacheMiss:
        """The error for what is not recorded; `lack` says of `capability` what it has not."""
        end = "its end" if capability == RECIPE else capability
        ended = f"; it has ended as {self._stored.status}" if self._stored.is_terminal else ""
        return ReplayCacheMiss(
            self.execution, capability, reason, f"replays up to {end}, which {lack} ({reason}){ended}"
        )

    # -- as the base class asks ------------------------------------------------------------------------------

    def check_live(self) -> None:
        """Raise the signal that ended this frame, if one has."""
        if self.over is not None:
            raise self.over

    def _count(self) -> int:
        self.ordinals += 1
        return self.ordinals - 1

    def _stage_demand(self, demand: Demand) -> None:
        self._staged = demand

    def _open(self, task: object, call: Call, params: object, demand: Demand) -> NoReturn:  # noqa: ARG002  # nothing is opened
        self._miss_result(call)

    def _open_map(self, task: object, call: Call, params: object, demand: Demand) -> NoReturn:  # noqa: ARG002  # see _open
        self._miss_result(call)

    def _make_value(self, call: Call, make: Callable[[], Plain]) -> NoReturn:  # noqa: ARG002  # see _open
        self._miss_result(call)

    def _begin_timer(self, call: Call, duration: timedelta) -> NoReturn:  # noqa: ARG002  # see _open
        self._end(self.miss(call.capability, MissReason.AWAIT_NOT_READY, "has not begun"))

    def _wait_for(self, call: Call) -> NoReturn:
        records = self._stored.records
        if records[call.capability].get("kind") == "timer":
            self._end(self.miss(call.capability, MissReason.AWAIT_NOT_READY, "is not over yet"))
        if call.size is None:
            self._miss_result(call)
        members = (records.get(f"{call.capability}:{n}", {}) for n in range(call.size))
        settled = sum(member.get("invocation") == InvocationState.SETTLED for member in members)
        lack = f"has {settled} of {call.size} results yet"
        self._end(self.miss(call.capability, MissReason.TASK_RESULT_MISSING, lack))

    def _suspend(self, directives: Mapping[str, str]) -> None:
        """Go on with what they require in force; a worker will publish it when it comes here."""
        self.job = self._requiring(directives)

    def _stop(self, error: Malformed | NonDeterministicRecipe) -> NoReturn:
        self._end(error)

    def _recorded(self, found: Found, call: Call) -> Sequence[bytes]:
        try:
            payloads = super()._recorded(found, call)
        except TaskFailed as error:
            self._tell(call, CapabilityStatus.FAILED, error)
            raise
        except TaskCancelled as error:
            self._tell(call, CapabilityStatus.CANCELLED, error)
            raise
        self._tell(call, CapabilityStatus.COMPLETED)
        return payloads

    # -- observing and ending --------------------------------------------------------------------------------

    def _tell(
        self, call: Call, outcome: CapabilityStatus, error: TaskFailed | TaskCancelled | None = None
    ) -> None:
        # A value has no needs of its own, and so none are staged for it.
        demand = self._staged or self._demands.of(self._base, self._scopes, NO_NEEDS, NO_NEEDS, self.job)
        self._staged = None
        self.answered += 1
        if self._observer is None:
            return
        told = ReplayedCall(
            capability=call.capability,
            task=call.task,
            ordinal=call.ordinal,
            outcome=outcome,
            size=call.size,
            demand=demand,
            error=_told(call, error),
        )
        try:
            self._observer(told)
        except BaseException as failure:  # noqa: BLE001  # the caller gets it, and the recipe must not
            self._end(failure)

    def _miss_result(self, call: Call) -> NoReturn:
        self._end(self.miss(call.capability, MissReason.TASK_RESULT_MISSING, "has no result yet"))

    def _end(self, error: BaseException) -> NoReturn:
        self.over = ReplayOver(error)
        raise self.over


def _base(definition: RecipeDefinition[Any], recording: Recording) -> Needs:
    # As it was published, whatever the code says by now.
    stored = recording.stored
    return stored.demand_of(RECIPE).recipe if "demand" in stored.records[RECIPE] else definition.needs


def _told(call: Call, error: TaskFailed | TaskCancelled | None) -> str | None:
    if error is None or error.capability == call.capability:
        return None if error is None else error.message
    return f"{error.capability}: {error.message}"


def _compare_result(
    payload: bytes, frame: ReplayFrame, recording: Recording, definition: RecipeDefinition[Any]
) -> Replayed:
    """The recipe returned: compare that with the end that is recorded."""
    stored, where = recording.stored, f"execution {frame.execution}"
    frame.records.check_all_asked(frame.ordinals)
    returned = decode(payload, where=f"{where}: what its recipe returned")
    if stored.status is ExecutionStatus.FAILED and not ended_from_outside(stored):
        raise NonDeterministicRecipe(
            f"{where}: the recipe now returns {_shown(repr(returned))}, but it is recorded that it failed: "
            f"{_shown(stored.error or '')}. {REMEDY}"
        )
    recorded = recording.results.get(RECIPE)
    if stored.status is not ExecutionStatus.COMPLETED or recorded is None:
        raise frame.miss(RECIPE, MissReason.JOB_RESULT_MISSING, "has no recorded result")
    plain = decode(recorded, where=f"{where}: its result")
    if input_hash(plain) != input_hash(returned):
        now, was = _differing(repr(returned), repr(plain))
        raise NonDeterministicRecipe(
            f"{where}: the recipe now returns {now}, but another result is recorded: {was}. {REMEDY}"
        )
    result = definition.signature.load_result(plain)
    return Replayed(execution=stored.id, status=stored.status, calls=frame.answered, result=result)


def _compare_error(error: BaseException, frame: ReplayFrame, recording: Recording) -> Replayed | Raised:
    """The recipe raised: compare that with the end that is recorded."""
    stored = recording.stored
    if isinstance(error, Malformed):
        raise error
    if stored.status is ExecutionStatus.COMPLETED:
        raise NonDeterministicRecipe(
            f"execution {frame.execution}: the recipe now raises {_shown(describe(error))}, "
            f"but it is recorded that it completed. {REMEDY}"
        ) from error
    if stored.is_terminal:
        frame.records.check_all_asked(frame.ordinals)
        return Replayed(
            execution=stored.id, status=stored.status, calls=frame.answered, error=stored.error or ""
        )
    if stored.intent is not None:
        # It is being ended, and no worker replays it any more.
        raise frame.miss(RECIPE, MissReason.JOB_RESULT_MISSING, "has no recorded result")
    return Raised(error)


def _differing(one: str, other: str) -> tuple[str, str]:
    """Both texts, shortened so that the first difference is seen."""
    same = sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], zip(one, other, strict=False)))
    start = max(0, same - _BEFORE)
    return _shown(one, start), _shown(other, start)


def _shown(text: str, start: int = 0) -> str:
    end = start + _SHOWN
    return ("…" if start else "") + text[start:end] + ("…" if len(text) > end else "")
