"""What a replay finds recorded at the coordinates of a task call, as a decision.

Parameters are compared by their hash. They are read only where that differs, to show both sides.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from tenure.engine.changes import changed, differing, shown, spelled
from tenure.errors import Malformed, StoreUnreachable
from tenure.model.data import decode, input_hash
from tenure.model.plain import Plain
from tenure.model.status import CapabilityStatus, InvocationState
from tenure.store.keys import RECIPE

Record = Mapping[str, Any]

#: From capabilities to the recorded parameters of those that have any.
ReadParams = Callable[[Sequence[str]], Mapping[str, bytes]]


@dataclass(frozen=True, slots=True)
class Call:
    """What the recipe asks for now."""

    capability: str
    ordinal: int
    task: str
    hash: str
    size: int | None = None
    #: The parameters, or a list of them for a map; for a timer, seconds.
    input: Plain = field(default=None, compare=False)


@dataclass(frozen=True, slots=True)
class New:
    """Nothing is recorded here yet."""


@dataclass(frozen=True, slots=True)
class Recorded:
    """The recorded result, or results in order of a map.

    `directives` are what those tasks required of the job (`ctx.suspend`), by capability and in the same
    order.
    """

    payloads: Sequence[bytes]
    directives: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class RecordedFailure:
    """The call failed, or was closed, for good. `directives`: of the items of a map that did complete."""

    capability: str
    error: str
    cancelled: bool
    directives: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class InProgress:
    """The call is open, and its outcome is not there yet."""


Found = New | Recorded | RecordedFailure | InProgress


class Records:
    """The records of one execution by ordinal, as read when its recipe was leased.

    Raises:
        Malformed: a record does not say which call it is of.
    """

    def __init__(
        self,
        execution: str,
        records: Mapping[str, Record],
        results: Mapping[str, bytes],
        params: ReadParams,
    ) -> None:
        self._execution = execution
        self._records = records
        self._results = results
        self._params = params
        self._calls: dict[int, str] = {}
        self._members: dict[int, list[str]] = defaultdict(list)
        for capability, record in records.items():
            if capability == RECIPE:
                continue
            try:
                ordinal = int(record["ordinal"])
            except (KeyError, TypeError, ValueError) as error:
                raise self._unreadable(capability, error) from error
            if record.get("index") is None:
                self._calls[ordinal] = capability
            else:
                self._members[ordinal].append(capability)

    def check_all_asked(self, ordinals: int) -> None:
        """After the recipe's last call. Raises `NonDeterministicRecipe` if more are recorded than it made."""
        left = min((ordinal for ordinal in self._calls if ordinal >= ordinals), default=None)
        if left is not None:
            capability, after = self._calls[left], _amount(ordinals, "call")
            raise changed(
                self._execution,
                capability,
                f"the recipe now ends after {after}, but {capability} is recorded too",
            )

    def unaccepted(self, directives: Mapping[str, str], checkpoints: Mapping[str, str]) -> dict[str, str]:
        """Those of `directives` that the job has no checkpoint of.

        Raises:
            NonDeterministicRecipe: it has one of another directive.
        """
        for capability, directive in directives.items():
            accepted = checkpoints.get(capability)
            if accepted is not None and accepted != input_hash(directive):
                raise changed(
                    self._execution,
                    capability,
                    f"{capability} now suspends for {directive}, but another requirement was accepted there",
                )
        return {name: directive for name, directive in directives.items() if name not in checkpoints}

    def find(self, call: Call) -> Found:
        """What is recorded for `call`.

        Raises:
            NonDeterministicRecipe: another task, input or number of items was recorded there.
            Malformed: the record cannot be read, or its result is missing.
        """
        capability = self._calls.get(call.ordinal)
        if capability is None:
            return New()
        record = self._records[capability]
        try:
            self._compare(call, capability, record)
            return (
                self._find_one(capability, record) if record.get("size") is None else self._find_group(call)
            )
        except (KeyError, TypeError, ValueError) as error:
            raise self._unreadable(capability, error) from error

    def _unreadable(self, capability: str, error: Exception) -> Malformed:
        reason = f"it has no {error}" if isinstance(error, KeyError) else str(error)
        return Malformed(
            f"execution {self._execution}: the record of {capability} cannot be read ({reason}); "
            "the bytes are kept; `tenure cancel` ends it"
        )

    def _compare(self, call: Call, capability: str, record: Record) -> None:
        was = (capability, record["hash"], record.get("size"))
        if was == (call.capability, call.hash, call.size):
            return
        if capability != call.capability:
            now, what, then = call.capability, "another task", capability
        else:
            asked, recorded = self._both_inputs(call, capability, record)
            now, what, then = (
                _named(capability, call.size, asked),
                "other input",
                _named(capability, record.get("size"), recorded),
            )
        raise changed(
            self._execution,
            capability,
            f"at call {call.ordinal} the recipe now asks for {now}, but {what} is recorded there: {then}",
        )

    def _both_inputs(self, call: Call, capability: str, record: Record) -> tuple[str, str]:
        try:
            recorded = self._input_of(capability, record)
        except (Malformed, StoreUnreachable) as error:
            # That it is another one is known by its hash.
            return shown(spelled(call.input)), f"what cannot be shown ({error})"
        return differing(spelled(call.input), spelled(recorded))

    def _input_of(self, capability: str, record: Record) -> Plain:
        size = record.get("size")
        names = [capability] if size is None else [f"{capability}:{n}" for n in range(int(size))]
        stored = self._params(names)
        if missing := [name for name in names if name not in stored]:
            if record["hash"] == input_hash([]):
                return []
            raise Malformed(f"the input of {missing[0]} is not kept")
        inputs = [decode(stored[name], where=f"the input of {name}") for name in names]
        return inputs[0] if size is None else inputs

    def _find_one(self, capability: str, record: Record) -> Found:
        match CapabilityStatus(record["status"]):
            case CapabilityStatus.COMPLETED:
                return self._results_of([capability])
            case CapabilityStatus.FAILED | CapabilityStatus.CANCELLED:
                return self._failure_of(capability, [capability])
            case _:
                return InProgress()

    def _find_group(self, call: Call) -> Found:
        members = sorted(self._members[call.ordinal], key=lambda name: int(self._records[name]["index"]))
        if any(self._records[name]["invocation"] != InvocationState.SETTLED for name in members):
            return InProgress()
        for ended in (CapabilityStatus.FAILED, CapabilityStatus.CANCELLED):
            for name in members:
                if self._records[name]["status"] == ended:
                    return self._failure_of(name, members)
        if call.size is None or len(members) < call.size:
            return InProgress()
        return self._results_of(members)

    def _failure_of(self, capability: str, members: Sequence[str]) -> RecordedFailure:
        record = self._records[capability]
        cancelled = record["status"] == CapabilityStatus.CANCELLED
        return RecordedFailure(capability, record.get("error") or "", cancelled, self._directives(members))

    def _results_of(self, capabilities: Sequence[str]) -> Recorded:
        return Recorded([self._payload(name) for name in capabilities], self._directives(capabilities))

    def _directives(self, capabilities: Sequence[str]) -> dict[str, str]:
        given = {name: self._records[name].get("directive") for name in capabilities}
        return {name: str(directive) for name, directive in given.items() if directive is not None}

    def _payload(self, capability: str) -> bytes:
        payload = self._results.get(capability)
        if payload is None:
            raise Malformed(
                f"execution {self._execution}: {capability} is recorded as completed but its result "
                "is missing; part of the store's data was lost"
            )
        return payload


def _named(capability: str, size: int | None, text: str) -> str:
    return (
        f"{capability} with {text}" if size is None else f"{capability} over {_amount(size, 'item')}, {text}"
    )


def _amount(count: int, noun: str) -> str:
    return f"{count} {noun}" if count == 1 else f"{count} {noun}s"
