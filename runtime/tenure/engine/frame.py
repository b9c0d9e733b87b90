"""The live frame of a recipe: one replay under one recipe lease, and the chain of tasks it runs in place.

While a task runs here the recipe lease is free and the frame waits on the stack. The task's result goes on
in hand: it is recorded by the step that opens the next task, in the same script. So a chain costs one call
per task, and yet B starts only with A acknowledged. What would be dear to make again is recorded at once.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from datetime import timedelta
from typing import Any, NoReturn, assert_never

from tenure.engine.attempts import Deferred, on_timeout, run_attempts
from tenure.engine.bench import Bench
from tenure.engine.definitions import TaskDefinition
from tenure.engine.demand import Demand
from tenure.engine.placement import Code
from tenure.engine.records import Call, Found, InProgress, New, Recorded, RecordedFailure, Records
from tenure.engine.signals import Next
from tenure.engine.steps import OWNERSHIP_LOST, Steps
from tenure.errors import Malformed, NonDeterministicRecipe, StoreUnreachable, TaskCancelled, TaskFailed
from tenure.model.data import decode, encode, input_hash
from tenure.model.needs import NO_NEEDS, Needs
from tenure.model.plain import Plain
from tenure.model.status import CapabilityStatus, Effects
from tenure.store.grants import Grant

#: A result that took longer than this to make is recorded at once.
DEAR_SECONDS = 0.010
#: Parameters of a map are written in chunks of at most this many bytes or members.
CHUNK_BYTES, CHUNK_MEMBERS = 256 * 1024, 1000


class Frame:
    """One replay. Its methods are what `Run` offers to the recipe."""

    def __init__(self, bench: Bench, grant: Grant, records: Records, base: Needs) -> None:
        self._bench = bench
        self.grant = grant
        self._records = records
        self._job_needs = Needs.from_data(grant.job_needs) if grant.job_needs else NO_NEEDS
        self._scopes: list[Needs] = [base]
        self.steps = Steps(bench, grant)

    # -- what a recipe asks for ------------------------------------------------------------------------------

    def call(
        self, task: TaskDefinition[..., Any], args: Sequence[Any], kwargs: Mapping[str, Any], needs: Needs
    ) -> Any:
        """One task call: its recorded outcome, or run it here, or open it elsewhere and leave."""
        self.steps.check_call()
        params = task.signature.dump_call(args, kwargs)
        call = self._next_call(task.name, input_hash(params))
        found = self._find(call)
        if isinstance(found, New):
            return self._open(task, call, params, self._demand(task, needs))
        (payload,) = self._recorded(found, {"capability": call.capability})
        return self._load(task, payload, call)

    def map(
        self, task: TaskDefinition[..., Any], items: Sequence[Any], kwargs: Mapping[str, Any], needs: Needs
    ) -> list[Any]:
        """One task call per item, in parallel; results in order."""
        self.steps.check_call()
        params = [task.signature.dump_call((item,), kwargs) for item in items]
        call = self._next_call(task.name, input_hash(list(params)), size=len(params) or None)
        found = self._find(call)
        if isinstance(found, New):
            if not params:
                self._record_value(call, [])
                return []
            self._open_map(task, call, params, self._demand(task, needs))
        payloads = self._recorded(found, {"group": call.ordinal})
        if call.size is None:
            return []
        return [self._load(task, payload, call) for payload in payloads]

    def value(self, kind: str, make: Callable[[], Plain]) -> Plain:
        """A value that is recorded the first time, such as the time of day."""
        self.steps.check_call()
        call = self._next_call(kind, input_hash(None))
        found = self._find(call)
        if isinstance(found, New):
            made = make()
            self._record_value(call, made)
            return made
        (payload,) = self._recorded(found, {"capability": call.capability})
        return decode(payload, where=self._where(call))

    def sleep(self, duration: timedelta) -> None:
        """A durable timer: the recipe leaves, and goes on when it is due."""
        self.steps.check_call()
        call = self._next_call("sleep", input_hash(duration.total_seconds()))
        found = self._find(call)
        if isinstance(found, New):
            spec = self._spec(call, Effects.REPEATABLE, self._bench.demands.of(NO_NEEDS), [])
            nothing = encode(None, limit=self._bench.settings.payload, where=self._where(call))
            timer = {**spec, "delay": int(duration.total_seconds() * 1000), "result": nothing}
            self.steps.suspend({"timer": timer, "awaits": {"capability": call.capability}})
        self._recorded(found, {"capability": call.capability})

    def push_scope(self, scope: Needs) -> None:
        """Enter a scope: its properties win over those outside."""
        self._scopes.append(scope)

    def pop_scope(self) -> None:
        """Leave the innermost scope."""
        self._scopes.pop()

    # -- how it ends -----------------------------------------------------------------------------------------

    def complete(self, payload: bytes) -> Next:
        """The recipe returned."""
        try:
            self._records.check_all_asked(self.steps.ordinals)
        except NonDeterministicRecipe as error:
            return self.block(str(error))
        return self.steps.finish({"action": "complete", "result": payload})

    def fail(self, error: str) -> Next:
        """The recipe raised."""
        return self.steps.finish({"action": "fail", "error": error})

    def block(self, error: str) -> Next:
        """The recipe cannot go on with this code or this data; the execution stops where it is."""
        return self.steps.finish({"action": "block", "error": error})

    # -- reading the record ----------------------------------------------------------------------------------

    def _next_call(self, task: str, digest: str, size: int | None = None) -> Call:
        ordinal = self.steps.ordinals
        self.steps.ordinals += 1
        return Call(f"{ordinal}:{task}", ordinal, task, digest, size)

    def _find(self, call: Call) -> Found:
        try:
            return self._records.find(call)
        except (NonDeterministicRecipe, Malformed) as error:
            # Raised as a signal: a recipe that catches exceptions must not run on past it.
            self.steps.leave(self.block(str(error)))

    def _recorded(self, found: Found, awaits: Mapping[str, Any]) -> Sequence[bytes]:
        match found:
            case Recorded(payloads):
                return payloads
            case RecordedFailure(capability, error, cancelled=True):
                raise TaskCancelled(capability, error)
            case RecordedFailure(capability, error):
                raise TaskFailed(capability, error)
            case InProgress():
                self.steps.suspend({"awaits": awaits})
            case New():
                raise AssertionError("a new call has no record")
            case _:
                assert_never(found)

    def _load(self, task: TaskDefinition[..., Any], payload: bytes, call: Call) -> Any:
        try:
            return task.signature.load_result(decode(payload, where=self._where(call)))
        except Malformed as error:
            self.steps.leave(self.block(str(error)))

    def _record_value(self, call: Call, value: Plain) -> None:
        limit = self._bench.settings.payload
        spec = self._spec(call, Effects.REPEATABLE, self._bench.demands.of(NO_NEEDS), [])
        result = encode(value, limit=limit, where=self._where(call))
        self.steps.keep_value({**spec, "result": result})

    def _where(self, call: Call) -> str:
        return f"execution {self.grant.execution}: {call.capability}"

    # -- opening work ----------------------------------------------------------------------------------------

    def _demand(self, task: TaskDefinition[..., Any], needs: Needs) -> Demand:
        return self._bench.demands.of(*self._scopes, task.needs, needs, self._job_needs)

    def _spec(
        self, call: Call, effects: Effects, demand: Demand, candidates: Sequence[tuple[str, int]]
    ) -> dict[str, Any]:
        return {
            "capability": call.capability,
            "ordinal": call.ordinal,
            "task": call.task,
            "hash": call.hash,
            "effects": effects.value,
            "needs": demand.data,
            "candidates": [list(candidate) for candidate in candidates],
            "crash_limit": self._bench.settings.crashes,
        }

    def _open(
        self, task: TaskDefinition[..., Any], call: Call, params: Mapping[str, Plain], demand: Demand
    ) -> Any:
        bench = self._bench
        packed = encode(dict(params), limit=bench.settings.payload, where=self._where(call))
        candidates = self._candidates(demand, Code(task=task.name))
        spec = {**self._spec(call, task.effects, demand, candidates), "params": packed}
        awaits = {"capability": call.capability}
        if not bench.runs(task, demand) or bench.stopping():
            self.steps.suspend({"open": spec, "awaits": awaits})
        run = {"action": "run", "open": spec, "on_timeout": on_timeout(task, 0)}
        reply = self.steps.take(run, claim=True)
        if reply.run_token is None:
            # Something more urgent waits in this queue: the task was opened like any other.
            self.steps.leave(Next(reply.grant, asked=True))
        lease = replace(
            self.grant,
            capability=call.capability,
            token=reply.run_token,
            attempt=reply.run_attempt,
            failures=0,
            params=packed,
            task=call.task,
            effects=task.effects,
        )
        return self._run_here(task, call, lease)

    def _run_here(self, task: TaskDefinition[..., Any], call: Call, lease: Grant) -> Any:
        try:
            outcome = run_attempts(self._bench, task, lease)
        except OWNERSHIP_LOST as error:
            self.steps.end_for(error)
        if isinstance(outcome, Deferred):
            self.steps.leave(outcome.then)
        self.steps.keep_in_hand(outcome.lease, outcome.status, outcome.fields)
        if task.effects is Effects.ONCE or outcome.seconds > DEAR_SECONDS:
            self.steps.hold()
        match outcome.status:
            case CapabilityStatus.COMPLETED:
                return self._load(task, outcome.fields["result"], call)
            case CapabilityStatus.FAILED:
                raise TaskFailed(call.capability, outcome.fields["error"])
            case _:
                raise TaskCancelled(call.capability, outcome.fields["error"])

    def _open_map(
        self,
        task: TaskDefinition[..., Any],
        call: Call,
        params: Sequence[Mapping[str, Plain]],
        demand: Demand,
    ) -> NoReturn:
        bench = self._bench
        limit = bench.settings.payload
        packed = [
            encode(dict(one), limit=limit, where=f"{self._where(call)}:{n}") for n, one in enumerate(params)
        ]
        self.steps.hold()
        self._write_params(call, packed)
        candidates = self._candidates(demand, Code(task=task.name))
        template = self._spec(call, task.effects, demand, candidates)
        group = {
            "capability": call.capability,
            "ordinal": call.ordinal,
            "hash": call.hash,
            "prefix": f"{call.capability}:",
            "size": call.size,
            "window": bench.settings.window,
            "template": template,
        }
        self.steps.suspend({"group": group, "awaits": {"group": call.ordinal}})

    def _write_params(self, call: Call, packed: Sequence[bytes]) -> None:
        chunk: list[Any] = []
        weight = 0
        for n, raw in enumerate(packed):
            chunk += [f"{call.capability}:{n}", raw]
            weight += len(raw)
            if weight >= CHUNK_BYTES or len(chunk) >= 2 * CHUNK_MEMBERS or n == len(packed) - 1:
                self.steps.write_params(chunk)
                chunk, weight = [], 0

    def _candidates(self, demand: Demand, code: Code) -> list[tuple[str, int]]:
        try:
            return self._bench.candidates(demand, code)
        except StoreUnreachable as error:
            self.steps.end_for(error)
