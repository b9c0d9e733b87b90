"""The live frame of a recipe: one replay under one recipe lease, and the chain of tasks it runs in place.

While a task runs here the recipe lease is free and the frame waits on the stack. The task's result goes on
in hand: it is recorded by the step that opens the next task, in the same script. So a chain costs one call
per task, and yet B starts only with A acknowledged. What would be dear to make again is recorded at once.

A task that this slot lacks something for gets a route of its own elsewhere. That opening is the handoff, and
so is the yield of a suspension: both publish a demand together with its event.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from datetime import timedelta
from typing import Any, NoReturn

from tenure.engine.attempts import Deferred, on_timeout, run_attempts
from tenure.engine.bench import Bench
from tenure.engine.definitions import TaskDefinition
from tenure.engine.frame import Frame
from tenure.engine.handoff import HandoffEvent
from tenure.engine.placement import Code
from tenure.engine.records import Call, Records
from tenure.engine.signals import Next
from tenure.engine.steps import OWNERSHIP_LOST, Steps
from tenure.errors import Malformed, NonDeterministicRecipe, StoreUnreachable, TaskCancelled, TaskFailed
from tenure.model.data import encode, input_hash
from tenure.model.demand import Demand, read_needs, write_needs
from tenure.model.fit import Mismatch
from tenure.model.needs import NO_NEEDS, Needs, overlay
from tenure.model.plain import Plain
from tenure.model.status import CapabilityStatus, Effects
from tenure.store.grants import Grant
from tenure.store.keys import RECIPE

#: A result that took longer than this to make is recorded at once.
DEAR_SECONDS = 0.010
#: How many of those that required another environment are named in its event.
REQUIRED_BY = 10
#: Parameters of a map are written in chunks of at most this many bytes or members.
CHUNK_BYTES, CHUNK_MEMBERS = 256 * 1024, 1000


class LiveFrame(Frame):
    """A frame that goes on: it holds the recipe lease `grant`, whose code is `code`."""

    def __init__(self, bench: Bench, grant: Grant, records: Records, base: Needs, code: Code) -> None:
        super().__init__(
            instance=grant.instance,
            execution=grant.execution,
            correlation=grant.correlation,
            records=records,
            base=base,
            job=read_needs(grant.job_needs, where=f"execution {grant.execution}: its requirements"),
            checkpoints=grant.checkpoints,
            demands=bench.demands,
        )
        self._bench = bench
        self._grant = grant
        self._code = code
        self.steps = Steps(bench, grant)

    # -- how it ends -----------------------------------------------------------------------------------------

    def complete(self, payload: bytes) -> Next:
        """The recipe returned."""
        try:
            self.records.check_all_asked(self.steps.ordinals)
        except NonDeterministicRecipe as error:
            return self.block(str(error))
        return self.steps.finish({"action": "complete", "result": payload})

    def fail(self, error: str) -> Next:
        """The recipe raised."""
        return self.steps.finish({"action": "fail", "error": error})

    def block(self, error: str) -> Next:
        """The recipe cannot go on with this code or this data; the execution stops where it is."""
        return self.steps.finish({"action": "block", "error": error})

    # -- as the base class asks ------------------------------------------------------------------------------

    def check_live(self) -> None:
        """Raise the signal that ended this frame, if one has."""
        self.steps.check_live()

    def _count(self) -> int:
        return self.steps.count_call()

    def _stage_demand(self, demand: Demand) -> None:
        self._bench.admission.stage(self.execution, demand)

    def _stop(self, error: Malformed | NonDeterministicRecipe) -> NoReturn:
        self.steps.leave(self.block(str(error)))

    def _wait_for(self, call: Call) -> NoReturn:
        self.steps.suspend({"awaits": _awaits(call)})

    def _make_value(self, call: Call, make: Callable[[], Plain]) -> Plain:
        made = make()
        result = encode(made, limit=self._bench.settings.payload, where=self._where(call))
        self.steps.keep_value({**self._spec(call, Effects.REPEATABLE), "result": result})
        return made

    def _begin_timer(self, call: Call, duration: timedelta) -> NoReturn:
        nothing = encode(None, limit=self._bench.settings.payload, where=self._where(call))
        timer = {
            **self._spec(call, Effects.REPEATABLE),
            "delay": int(duration.total_seconds() * 1000),
            "result": nothing,
        }
        # What waits publishes the scopes that it waits in, for whoever asks what it will need (no event).
        at = call.capability if self._scopes else None
        staged = Demand(self._base, overlay(*self._scopes), NO_NEEDS, self.job, at=at)
        self.steps.suspend({"timer": timer, "demand": staged.published, "awaits": _awaits(call)})

    # -- a task call -----------------------------------------------------------------------------------------

    def _open(
        self, task: TaskDefinition[..., Any], call: Call, params: Mapping[str, Plain], demand: Demand
    ) -> Any:
        bench = self._bench
        packed = encode(dict(params), limit=bench.settings.payload, where=self._where(call))
        spec = {**self._spec(call, task.effects), **self._route(task, demand), "params": packed}
        guarded = bench.workset.guarded(task)
        lacks = guarded.lacks(self.execution) if guarded else ()
        if lacks:
            self._hand_off({"open": _avoiding(spec, bench)}, call, demand, lacks)
        if guarded is None or bench.stopping():
            self.steps.suspend({"open": spec, "awaits": _awaits(call)})
        run = {"action": "run", "open": spec, "on_timeout": on_timeout(task, 0)}
        reply = self.steps.take(run, claim=bench.takes_more)
        if reply.run_token is None:
            # Something more urgent waits in this queue: the task was opened like any other.
            self.steps.leave(Next(reply.grant, asked=True))
        lease = replace(
            self._grant,
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
        if (directive := outcome.fields.get("directive")) is not None:
            self._meet({call.capability: directive})
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
        guarded = bench.workset.guarded(task)
        lacks = guarded.lacks(self.execution) if guarded else ()
        self.steps.hold()
        self._write_params(call, packed)
        template = {**self._spec(call, task.effects), **self._route(task, demand)}
        group = {
            "capability": call.capability,
            "ordinal": call.ordinal,
            "hash": call.hash,
            "prefix": f"{call.capability}:",
            "size": call.size,
            "window": bench.settings.window,
            "template": _avoiding(template, bench) if lacks else template,
        }
        if lacks:
            self._hand_off({"group": group}, call, demand, lacks)
        self.steps.suspend({"group": group, "awaits": _awaits(call)})

    def _write_params(self, call: Call, packed: Sequence[bytes]) -> None:
        chunk: list[Any] = []
        weight = 0
        for n, raw in enumerate(packed):
            chunk += [f"{call.capability}:{n}", raw]
            weight += len(raw)
            if weight >= CHUNK_BYTES or len(chunk) >= 2 * CHUNK_MEMBERS or n == len(packed) - 1:
                self.steps.write_params(chunk)
                chunk, weight = [], 0

    def _spec(self, call: Call, effects: Effects) -> dict[str, Any]:
        return {
            "capability": call.capability,
            "ordinal": call.ordinal,
            "task": call.task,
            "hash": call.hash,
            "effects": effects.value,
        }

    def _route(self, task: TaskDefinition[..., Any], demand: Demand) -> dict[str, Any]:
        return {
            "demand": demand.published,
            "candidates": self._candidates(demand, Code(task=task.name)),
            "crash_limit": self._bench.settings.crashes,
        }

    def _candidates(self, demand: Demand, code: Code) -> list[list[Any]]:
        try:
            return [list(candidate) for candidate in self._bench.candidates(demand, code)]
        except StoreUnreachable as error:
            self.steps.end_for(error)

    # -- handing off -----------------------------------------------------------------------------------------

    def _hand_off(
        self, opened: Mapping[str, Any], call: Call, demand: Demand, lacks: Sequence[Mismatch]
    ) -> NoReturn:
        event = self._event(call.capability, Code(task=call.task), demand, lacks)
        self.steps.suspend({**opened, "awaits": _awaits(call)}, handoff=event)

    def _suspend(self, directives: Mapping[str, str]) -> NoReturn:
        """Accept what results require of the job, and yield; also if this slot would do."""
        job = self._requiring(directives)
        demand = Demand(self._base, NO_NEEDS, NO_NEEDS, job)
        lacks = self._bench.admission.compare(demand)
        self.steps.suspend(
            {
                "action": "yield",
                "revision": self._grant.revision,
                "job_needs": write_needs(job),
                "checkpoints": {name: input_hash(text) for name, text in directives.items()},
                # Of the items of a large map the last, which win.
                "required_by": list(directives)[-REQUIRED_BY:],
                "demand": demand.published,
                "candidates": self._candidates(demand, self._code),
            },
            handoff=self._event(RECIPE, self._code, demand, lacks),
        )

    def _event(self, capability: str, code: Code, demand: Demand, lacks: Sequence[Mismatch]) -> HandoffEvent:
        return HandoffEvent(
            instance=self.instance,
            execution=self.execution,
            capability=capability,
            code=str(code),
            demand=demand,
            allocation=self._bench.admission.allocation,
            mismatches=tuple(lacks),
            published=True,
        )


def _awaits(call: Call) -> dict[str, Any]:
    return {"capability": call.capability} if call.size is None else {"group": call.ordinal}


def _avoiding(spec: Mapping[str, Any], bench: Bench) -> dict[str, Any]:
    """A route that this slot hands off as it opens it."""
    return {
        **spec,
        "avoid": {bench.leases.holder.queue: True},
        "handed_off": str(bench.admission.allocation),
    }
