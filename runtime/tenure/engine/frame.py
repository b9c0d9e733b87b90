"""The live frame of a recipe: one replay under one recipe lease, and the chain of tasks it runs in place.

While a task runs here the recipe lease is free and the frame waits on the stack. The task's result goes on
in hand: it is recorded by the step that opens the next task, in the same script. So a chain costs one call
per task, and yet B starts only with A acknowledged. What would be dear to make again is recorded at once.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any, NoReturn, assert_never

from tenure.engine.attempt import Completed, Failed, TryAgain, run_task
from tenure.engine.bench import Bench
from tenure.engine.context import TaskContext
from tenure.engine.definitions import TaskDefinition
from tenure.engine.demand import Demand
from tenure.engine.placement import Code
from tenure.engine.presence import Phase
from tenure.engine.records import Call, Found, InProgress, New, Recorded, RecordedFailure, Records
from tenure.engine.signals import ControlSignal, Leave, Next, Stop
from tenure.errors import (
    LeaseLost,
    Malformed,
    NonDeterministicRecipe,
    StoreUnreachable,
    TaskCancelled,
    TaskFailed,
    TenureError,
    Unconfirmed,
)
from tenure.model.data import decode, encode, input_hash
from tenure.model.needs import NO_NEEDS, Needs
from tenure.model.plain import Plain
from tenure.model.status import CapabilityStatus, Effects, InvocationOutcome
from tenure.store.answers import StepAnswer
from tenure.store.grants import Grant, StepReply
from tenure.store.keys import route_member

log = logging.getLogger(__name__)

#: A result that took longer than this to make is recorded at once.
DEAR_SECONDS = 0.010
#: The longest a result in hand waits for the recipe's own code.
IN_HAND_SECONDS = 0.050
#: Retries within this are waited for in place, holding the slot.
IN_PLACE_MS = 999
#: Parameters of a map are written in chunks of at most this many bytes or members.
CHUNK_BYTES, CHUNK_MEMBERS = 256 * 1024, 1000


class Frame:
    """One replay. Its methods are what `Run` offers to the recipe."""

    def __init__(self, bench: Bench, grant: Grant, records: Records, base: Needs) -> None:
        self._bench = bench
        self.grant = grant
        self._records = records
        self._job_needs = Needs.from_data(grant.job_needs) if grant.job_needs else NO_NEEDS
        self._frame = grant.token
        self._token = grant.token
        self._ordinal = 0
        self._values: list[dict[str, Any]] = []
        self._scopes: list[Needs] = [base]
        self._lock = threading.RLock()
        self._in_hand: dict[str, Any] | None = None
        self._in_hand_since = 0.0
        self.over: ControlSignal | None = None

    # -- what a recipe asks for ------------------------------------------------------------------------------

    def call(
        self, task: TaskDefinition[..., Any], args: Sequence[Any], kwargs: Mapping[str, Any], needs: Needs
    ) -> Any:
        """One task call: its recorded outcome, or run it here, or open it elsewhere and leave."""
        self.check_live()
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
        self.check_live()
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
        self.check_live()
        call = self._next_call(kind, input_hash(None))
        found = self._find(call)
        if isinstance(found, New):
            made = make()
            self._record_value(call, made)
            return made
        (payload,) = self._recorded(found, {"capability": call.capability})
        return decode(payload, where=self._where(call))

    def push_scope(self, scope: Needs) -> None:
        """Enter a scope: its properties win over those outside."""
        self._scopes.append(scope)

    def pop_scope(self) -> None:
        """Leave the innermost scope."""
        self._scopes.pop()

    # -- how it ends -----------------------------------------------------------------------------------------

    def complete(self, payload: bytes) -> Next:
        """The recipe returned."""
        return self._end({"action": "complete", "result": payload})

    def fail(self, error: str) -> Next:
        """The recipe raised."""
        return self._end({"action": "fail", "error": error})

    def block(self, error: str) -> Next:
        """The recipe cannot go on with this code or this data; the execution stops where it is."""
        return self._end({"action": "block", "error": error})

    def _end(self, recipe: Mapping[str, Any]) -> Next:
        claim = not self._bench.stopping()
        try:
            reply = self._step(recipe, claim=claim)
        except Leave as leave:
            return leave.then
        return Next(reply.grant, asked=claim)

    def _suspend(self, recipe: Mapping[str, Any]) -> NoReturn:
        claim = not self._bench.stopping()
        reply = self._step({"action": "suspend", **recipe}, claim=claim)
        self._leave(Next(reply.grant, asked=claim))

    def _leave(self, then: Next) -> NoReturn:
        self.over = Leave(then)
        raise self.over

    def check_live(self) -> None:
        """Raise the signal that ended this frame, if one has."""
        # A recipe that swallowed the signal gets it again at its next call.
        if self.over is not None:
            raise self.over

    # -- reading the record ----------------------------------------------------------------------------------

    def _next_call(self, task: str, digest: str, size: int | None = None) -> Call:
        ordinal = self._ordinal
        self._ordinal += 1
        return Call(f"{ordinal}:{task}", ordinal, task, digest, size)

    def _find(self, call: Call) -> Found:
        try:
            return self._records.find(call)
        except (NonDeterministicRecipe, Malformed) as error:
            # Raised as a signal: a recipe that catches exceptions must not run on past it.
            self._leave(self.block(str(error)))

    def _recorded(self, found: Found, awaits: Mapping[str, Any]) -> Sequence[bytes]:
        match found:
            case Recorded(payloads):
                return payloads
            case RecordedFailure(capability, error, cancelled=True):
                raise TaskCancelled(capability, error)
            case RecordedFailure(capability, error):
                raise TaskFailed(capability, error)
            case InProgress():
                self._suspend({"awaits": awaits})
            case New():
                raise AssertionError("a new call has no record")
            case _:
                assert_never(found)

    def _load(self, task: TaskDefinition[..., Any], payload: bytes, call: Call) -> Any:
        try:
            return task.signature.load_result(decode(payload, where=self._where(call)))
        except Malformed as error:
            self._leave(self.block(str(error)))

    def _record_value(self, call: Call, value: Plain) -> None:
        limit = self._bench.settings.payload
        spec = self._spec(call, Effects.REPEATABLE, self._bench.demands.of(NO_NEEDS), [])
        result = encode(value, limit=limit, where=self._where(call))
        # Not while another thread records a result: that step takes the values it was sent for all there are.
        with self._lock:
            self._values.append({**spec, "result": result})

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
        candidates = bench.candidates(demand, Code(task=task.name))
        spec = {**self._spec(call, task.effects, demand, candidates), "params": packed}
        awaits = {"capability": call.capability}
        if not bench.runs(task, demand) or bench.stopping():
            self._suspend({"open": spec, "awaits": awaits})
        reply = self._step({"action": "run", "open": spec}, claim=True)
        if reply.run_token is None:
            # Something more urgent waits in this queue: the task was opened like any other.
            self._leave(Next(reply.grant, asked=True))
        lease = replace(
            self.grant,
            capability=call.capability,
            token=reply.run_token,
            attempt=reply.run_attempt,
            failures=0,
            params=packed,
            task=call.task,
            effects=task.effects,
            title=f"{self.grant.recipe} {call.capability}",
        )
        return self._run_here(task, call, lease)

    def _run_here(self, task: TaskDefinition[..., Any], call: Call, lease: Grant) -> Any:
        bench = self._bench
        while True:
            bench.presence.show(Phase.TASK, [(lease.route, lease.token, True)])
            try:
                context = TaskContext(lease, bench.leases)
                outcome = run_task(task, lease, context, payload_limit=bench.settings.payload)
            except LeaseLost as error:
                self._lost(error)
            except (Unconfirmed, StoreUnreachable) as error:
                self._stop(error)
            match outcome:
                case Completed(payload, seconds):
                    dear = task.effects is Effects.ONCE or seconds > DEAR_SECONDS
                    self._settle(lease, CapabilityStatus.COMPLETED, {"result": payload}, at_once=dear)
                    return self._load(task, payload, call)
                case Failed(reason, error_type):
                    fields = {"error": reason, "error_type": error_type}
                    once = task.effects is Effects.ONCE
                    self._settle(lease, CapabilityStatus.FAILED, fields, at_once=once)
                    raise TaskFailed(call.capability, reason)
                case TryAgain():
                    lease = self._try_again(lease, outcome)
                case _:
                    assert_never(outcome)

    def _try_again(self, lease: Grant, again: TryAgain) -> Grant:
        claim = not self._bench.stopping()
        delay_ms = int(again.delay.total_seconds() * 1000)
        try:
            in_place, other = self._bench.leases.retry(
                lease,
                error=again.error,
                error_type=again.error_type,
                delay_ms=delay_ms,
                in_place_ms=IN_PLACE_MS,
                claim=claim,
            )
        except LeaseLost as error:
            self._lost(error)
        except (Unconfirmed, StoreUnreachable) as error:
            self._stop(error)
        if not in_place:
            self._leave(Next(other, asked=claim))
        time.sleep(delay_ms / 1000)
        return replace(lease, attempt=lease.attempt + 1, failures=lease.failures + 1)

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
        self._step({"action": "hold"})
        self._write_params(call, packed)
        candidates = bench.candidates(demand, Code(task=task.name))
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
        self._suspend({"group": group, "awaits": {"group": call.ordinal}})

    def _write_params(self, call: Call, packed: Sequence[bytes]) -> None:
        chunk: list[Any] = []
        weight = 0
        for n, raw in enumerate(packed):
            chunk += [f"{call.capability}:{n}", raw]
            weight += len(raw)
            if weight >= CHUNK_BYTES or len(chunk) >= 2 * CHUNK_MEMBERS or n == len(packed) - 1:
                try:
                    self._bench.leases.write_params(
                        instance=self.grant.instance,
                        execution=self.grant.execution,
                        token=self._token,
                        params=chunk,
                    )
                except LeaseLost as error:
                    self._lost(error)
                except (Unconfirmed, StoreUnreachable) as error:
                    self._stop(error)
                chunk, weight = [], 0

    # -- the step --------------------------------------------------------------------------------------------

    def _settle(
        self, lease: Grant, status: CapabilityStatus, fields: Mapping[str, Any], *, at_once: bool
    ) -> None:
        outcome = InvocationOutcome(status.value)
        with self._lock:
            self._in_hand = {
                "capability": lease.capability,
                "token": lease.token,
                "status": status.value,
                "outcome": outcome.value,
                **fields,
            }
            self._in_hand_since = time.monotonic()
            self._bench.presence.show(Phase.RECIPE, [(lease.route, lease.token, True)])
        if at_once:
            self._hold()

    def commit_overdue(self) -> None:
        """Record a result that has waited too long for the recipe's own code. Called by another thread."""
        with self._lock:
            overdue = time.monotonic() - self._in_hand_since >= IN_HAND_SECONDS / 2
            if self._in_hand is None or not overdue or self.over is not None:
                return
            try:
                self._hold()
            except ControlSignal as signal:
                # The recipe's thread meets it at its next call, or when it returns.
                self.over = signal

    def _hold(self) -> None:
        with self._lock:
            self._step({"action": "hold"})

    def _step(self, recipe: Mapping[str, Any], *, claim: bool = False) -> StepReply:
        with self._lock:
            self.check_live()
            try:
                reply = self._bench.leases.step(
                    instance=self.grant.instance,
                    execution=self.grant.execution,
                    settle=self._in_hand,
                    recipe={"frame": self._frame, "token": self._token, **recipe},
                    values=self._values,
                    ordinals=self._ordinal,
                    claim=claim,
                )
            except LeaseLost as error:
                self._lost(error)
            except (Unconfirmed, StoreUnreachable) as error:
                self._stop(error)
            self._in_hand, self._values = None, []
            if reply.answer is not StepAnswer.STEPPED:
                self._leave(Next(reply.grant, asked=claim))
            if reply.recipe_token is not None:
                self._token = reply.recipe_token
                route = route_member(self.grant.instance, self.grant.execution, self.grant.capability)
                self._bench.presence.show(Phase.RECIPE, [(route, self._token, True)])
            return reply

    def _lost(self, error: LeaseLost) -> NoReturn:
        log.warning("%s", error, extra={"execution": self.grant.execution, "token": self._token})
        self._leave(Next())

    def _stop(self, error: TenureError) -> NoReturn:
        self.over = Stop(error)
        raise self.over from error
