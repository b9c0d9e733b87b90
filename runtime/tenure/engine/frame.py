"""A replay of a recipe: what it asks for is answered from the record.

What is recorded is the same for every replay. What is not is up to the kind of frame: a live one runs it,
opens it elsewhere or waits for it; a read-only one ends there.
"""

from __future__ import annotations

import threading
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from datetime import timedelta
from typing import Any, NoReturn, assert_never

from tenure.engine.changes import changed
from tenure.engine.definitions import TaskDefinition
from tenure.engine.demand import Demands
from tenure.engine.records import Call, Found, InProgress, New, Recorded, RecordedFailure, Records
from tenure.errors import InvalidInput, Malformed, NonDeterministicRecipe, TaskCancelled, TaskFailed
from tenure.model.data import decode, input_hash
from tenure.model.demand import Demand, read_needs
from tenure.model.needs import NO_NEEDS, Needs, overlay
from tenure.model.plain import Plain

TIMER = "sleep"


class Frame(ABC):
    """One replay of one execution. Its public methods are what `Run` offers to the recipe.

    `base` is what the recipe declares, `job` what was required explicitly; `checkpoints` are the suspensions
    that `job` already has in it, as capability to the hash of its directive.
    """

    def __init__(
        self,
        *,
        instance: str,
        execution: str,
        correlation: str,
        records: Records,
        base: Needs,
        job: Needs,
        checkpoints: Mapping[str, str],
        demands: Demands,
    ) -> None:
        self.instance = instance
        self.execution = execution
        self.correlation = correlation
        self.records = records
        self.job = job
        self._base = base
        self._checkpoints = dict(checkpoints)
        self._demands = demands
        self._scopes: tuple[Needs, ...] = ()
        self._unentered: Needs | None = None
        self._thread = threading.get_ident()

    # -- what a recipe asks for ------------------------------------------------------------------------------

    def call(
        self, task: TaskDefinition[..., Any], args: Sequence[Any], kwargs: Mapping[str, Any], needs: Needs
    ) -> Any:
        """One task call: its recorded outcome, or what becomes of a new one."""
        self.check_call()
        params = task.signature.dump_call(args, kwargs)
        demand = self._stage(task.needs, needs)
        call = self._next_call(task.name, params)
        found = self._find(call)
        if isinstance(found, New):
            return self._open(task, call, params, demand)
        (payload,) = self._recorded(found, call)
        return self._load(task, payload, call)

    def map(
        self, task: TaskDefinition[..., Any], items: Sequence[Any], kwargs: Mapping[str, Any], needs: Needs
    ) -> list[Any]:
        """One task call per item, in parallel; results in order."""
        self.check_call()
        params = [task.signature.dump_call((item,), kwargs) for item in items]
        demand = self._stage(task.needs, needs)
        call = self._next_call(task.name, list(params), size=len(params) or None)
        found = self._find(call)
        if call.size is None:
            self._value(call, found, list)
            return []
        if isinstance(found, New):
            self._open_map(task, call, params, demand)
        return [self._load(task, payload, call) for payload in self._recorded(found, call)]

    def value(self, kind: str, make: Callable[[], Plain]) -> Plain:
        """A value that is recorded the first time, such as the time of day."""
        self.check_call()
        call = self._next_call(kind, None)
        return self._value(call, self._find(call), make)

    def sleep(self, duration: timedelta) -> None:
        """A durable timer: the recipe leaves, and goes on when it is due."""
        self.check_call()
        self._stage(NO_NEEDS, NO_NEEDS)
        call = self._next_call(TIMER, duration.total_seconds())
        found = self._find(call)
        if isinstance(found, New):
            self._begin_timer(call, duration)
        self._recorded(found, call)

    def scope(self, needs: Needs) -> AbstractContextManager[None]:
        """A scope to be entered: its properties win over those outside."""
        self._unentered = needs
        return self._in_scope(needs)

    @contextmanager
    def _in_scope(self, needs: Needs) -> Iterator[None]:
        self._unentered, outside = None, self._scopes
        self._scopes = (*outside, needs)
        try:
            yield
        finally:
            self._scopes = outside

    def check_call(self) -> None:
        """Raise unless a call of the recipe may be made now, in this thread."""
        if threading.get_ident() != self._thread:
            raise InvalidInput(
                f"execution {self.execution}: its recipe calls from another thread; "
                "the order of such calls cannot be replayed, so use run.map for what runs in parallel"
            )
        self.check_live()
        if self._unentered is not None:
            raise InvalidInput(
                f"execution {self.execution}: run.needs({self._unentered}) does nothing by itself; "
                "write `with run.needs(...):` around the calls that it is for"
            )

    # -- what kinds of frames differ in ----------------------------------------------------------------------

    @abstractmethod
    def check_live(self) -> None:
        """Raise the signal that ended this frame, if one has."""

    @abstractmethod
    def _count(self) -> int:
        """The ordinal of the next call."""

    @abstractmethod
    def _stage_demand(self, demand: Demand) -> None:
        """Told of the demand in force, before each call and before it is known whether it is finished."""

    @abstractmethod
    def _open(
        self, task: TaskDefinition[..., Any], call: Call, params: Mapping[str, Plain], demand: Demand
    ) -> Any:
        """A new task call."""

    @abstractmethod
    def _open_map(
        self,
        task: TaskDefinition[..., Any],
        call: Call,
        params: Sequence[Mapping[str, Plain]],
        demand: Demand,
    ) -> NoReturn:
        """A new map of at least one item."""

    @abstractmethod
    def _begin_timer(self, call: Call, duration: timedelta) -> NoReturn:
        """A new timer."""

    @abstractmethod
    def _make_value(self, call: Call, make: Callable[[], Plain]) -> Plain:
        """A new value."""

    @abstractmethod
    def _wait_for(self, call: Call) -> NoReturn:
        """The call is open, and its outcome is not there yet."""

    @abstractmethod
    def _suspend(self, directives: Mapping[str, str]) -> None:
        """Results have come with requirements (`ctx.suspend`) that the job has not accepted yet."""

    @abstractmethod
    def _stop(self, error: Malformed | NonDeterministicRecipe) -> NoReturn:
        """The recipe cannot go on with this code or this data.

        By a signal: a recipe that catches exceptions must not run on past it.
        """

    # -- reading the record ----------------------------------------------------------------------------------

    def _stage(self, task: Needs, call: Needs) -> Demand:
        demand = self._demands.of(self._base, self._scopes, task, call, self.job)
        self._stage_demand(demand)
        return demand

    def _next_call(self, task: str, asked: Plain, size: int | None = None) -> Call:
        ordinal = self._count()
        return Call(f"{ordinal}:{task}", ordinal, task, input_hash(asked), size, asked)

    def _find(self, call: Call) -> Found:
        try:
            return self.records.find(call)
        except (NonDeterministicRecipe, Malformed) as error:
            self._stop(error)

    def _recorded(self, found: Found, call: Call) -> Sequence[bytes]:
        match found:
            case Recorded(payloads, directives):
                self._meet(directives)
                return payloads
            case RecordedFailure(capability, error, cancelled, directives):
                self._meet(directives)
                raise (TaskCancelled if cancelled else TaskFailed)(capability, error)
            case InProgress():
                self._wait_for(call)
            case New():
                raise AssertionError("a new call has no record")
            case _:
                assert_never(found)

    def _value(self, call: Call, found: Found, make: Callable[[], Plain]) -> Plain:
        if isinstance(found, New):
            return self._make_value(call, make)
        (payload,) = self._recorded(found, call)
        return self._decode(payload, call)

    def _meet(self, directives: Mapping[str, str]) -> None:
        """Skip the suspensions that have been accepted; no older value of theirs comes back."""
        if not directives:
            return
        try:
            pending = self.records.unaccepted(directives, self._checkpoints)
        except NonDeterministicRecipe as error:
            self._stop(error)
        if pending:
            self._suspend(pending)

    def _requiring(self, directives: Mapping[str, str]) -> Needs:
        """The requirements of the job with these directives accepted, in order."""
        where = f"execution {self.execution}: the requirements of"
        try:
            asked = [read_needs(text, where=f"{where} {name}") for name, text in directives.items()]
        except Malformed as error:
            self._stop(error)
        return overlay(self.job, *asked)

    def _load(self, task: TaskDefinition[..., Any], payload: bytes, call: Call) -> Any:
        plain = self._decode(payload, call)
        try:
            return task.signature.load_result(plain)
        except Malformed as error:
            # The bytes are well: it is the code that declares something else than it did.
            self._stop(changed(self.execution, call.capability, f"{call.capability}: {error}"))

    def _decode(self, payload: bytes, call: Call) -> Plain:
        try:
            return decode(payload, where=self._where(call))
        except Malformed as error:
            self._stop(error)

    def _where(self, call: Call) -> str:
        return f"execution {self.execution}: {call.capability}"
