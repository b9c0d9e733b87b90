"""Read-only replay: a recipe runs again over its record, and ends where the record does (G13).

The frame has one recording in memory and nothing else: no store, no lease, no session. So there is nothing by
which it could write, wait or run a task; whatever a recipe asks for is in the recording, or ends the replay.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import Any, Final, NoReturn

from tenure.engine.definitions import RecipeDefinition
from tenure.engine.demand import Demands
from tenure.engine.ending import Ending, Raised, Replayed, Stopped, compare_error, compare_result
from tenure.engine.frame import Frame
from tenure.engine.records import Call, Found, Records
from tenure.engine.run import run_recipe
from tenure.engine.signals import ReplayOver
from tenure.errors import (
    InvalidInput,
    Malformed,
    MissReason,
    NonDeterministicRecipe,
    ReplayCacheMiss,
    TaskCancelled,
    TaskFailed,
)
from tenure.model.demand import Demand
from tenure.model.needs import NO_NEEDS, Needs
from tenure.model.plain import Plain
from tenure.model.status import CapabilityStatus, InvocationState
from tenure.store.keys import RECIPE
from tenure.store.recordings import Recording


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
    #: What the recipe asks with, as plain data: parameters by name, or a list of those of a map.
    input: Plain
    #: What is recorded as its result, as plain data; a list for a map, None unless it completed.
    result: Plain
    #: What was in force at the call, by layer.
    demand: Demand
    #: What the recipe was told when it failed or was cancelled.
    error: str | None


Observer = Callable[[ReplayedCall], object]

_NO_COROUTINE: Final = (
    "the observer of a replay is called and not awaited, so a coroutine function would do nothing; "
    "give a plain function, which may put calls in a queue"
)


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
        payload = run_recipe(definition, frame, recording.input, payload_limit=payload_limit)
    except KeyboardInterrupt:
        raise
    except BaseException as error:  # noqa: BLE001  # a recipe may raise anything
        raised = error
    if frame.over is not None:
        # What a recipe makes of the signal, if it has swallowed it, is discarded.
        raise frame.over.error
    if raised is not None:
        return compare_error(raised, frame, recording)
    return compare_result(payload, frame, recording, definition)


class ReplayFrame(Frame):
    """A frame that ends where nothing is recorded. `observer` is told of each call that is answered."""

    def __init__(self, recording: Recording, base: Needs, observer: Observer | None) -> None:
        stored = recording.stored
        super().__init__(
            instance=stored.instance,
            execution=stored.id,
            correlation=stored.correlation,
            records=Records(stored.id, stored.records, recording.results, lambda _: recording.params),
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
        self._tell(call, CapabilityStatus.COMPLETED, payloads=payloads)
        return payloads

    # -- observing and ending --------------------------------------------------------------------------------

    def _tell(
        self,
        call: Call,
        outcome: CapabilityStatus,
        error: TaskFailed | TaskCancelled | None = None,
        *,
        payloads: Sequence[bytes] = (),
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
            input=call.input,
            result=self._result_of(call, payloads),
            demand=demand,
            error=_told(call, error),
        )
        try:
            _refuse_awaitable(self._observer(told))
        except BaseException as failure:  # noqa: BLE001  # the caller gets it, and the recipe must not
            self._end(failure)

    def _result_of(self, call: Call, payloads: Sequence[bytes]) -> Plain:
        results = [self._decode(payload, call) for payload in payloads]
        if call.size is None:
            return results[0] if results else None
        return results if payloads else None

    def _miss_result(self, call: Call) -> NoReturn:
        self._end(self.miss(call.capability, MissReason.TASK_RESULT_MISSING, "has no result yet"))

    def _end(self, error: BaseException) -> NoReturn:
        self.over = ReplayOver(error)
        raise self.over


def check_observer(observer: object) -> None:
    """Raise `InvalidInput` for what cannot be called, or would do nothing when it is."""
    if observer is None:
        return
    if not callable(observer):
        raise InvalidInput(f"the observer {observer!r} is no function; give one that takes a ReplayedCall")
    called = (observer, getattr(observer, "__call__", None))  # noqa: B004  # an object may have an async one
    if any(inspect.iscoroutinefunction(one) or inspect.isasyncgenfunction(one) for one in called):
        raise InvalidInput(_NO_COROUTINE)


def _refuse_awaitable(answer: object) -> None:
    if inspect.iscoroutine(answer):
        answer.close()
    if inspect.isawaitable(answer):
        raise InvalidInput(_NO_COROUTINE)


def _base(definition: RecipeDefinition[Any], recording: Recording) -> Needs:
    # As it was published, whatever the code says by now.
    stored = recording.stored
    return stored.demand_of(RECIPE).recipe if "demand" in stored.records[RECIPE] else definition.needs


def _told(call: Call, error: TaskFailed | TaskCancelled | None) -> str | None:
    if error is None or error.capability == call.capability:
        return None if error is None else error.message
    return f"{error.capability}: {error.message}"
