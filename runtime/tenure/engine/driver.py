"""The driver works through leases in one slot: claim, act, settle, take what comes next."""

from __future__ import annotations

import logging
import threading
import time
from typing import Any, assert_never

from tenure.engine.admission import Admission, Admitted, Handoff
from tenure.engine.attempt import describe
from tenure.engine.attempts import Deferred, Settled, on_timeout, run_attempts
from tenure.engine.bench import Bench
from tenure.engine.context import log_fields
from tenure.engine.definitions import Definitions, RecipeDefinition, recipe_running
from tenure.engine.frame import Frame
from tenure.engine.placement import Placement
from tenure.engine.presence import Phase, Presence
from tenure.engine.records import Records
from tenure.engine.run import Run
from tenure.engine.signals import ControlSignal, Leave, Next, Stop
from tenure.engine.steps import IN_HAND_SECONDS
from tenure.errors import LeaseLost, Malformed
from tenure.model.data import decode, encode
from tenure.model.status import InvocationOutcome
from tenure.settings import Settings
from tenure.store.executions import Executions
from tenure.store.grants import Grant
from tenure.store.leases import SlotLeases

log = logging.getLogger(__name__)


class Driver:
    """One per slot life. `drain` is what a ticket makes the slot do."""

    def __init__(
        self,
        *,
        leases: SlotLeases,
        executions: Executions,
        placement: Placement,
        definitions: Definitions,
        presence: Presence,
        admission: Admission,
        settings: Settings,
    ) -> None:
        self._bench = Bench(
            leases=leases,
            executions=executions,
            placement=placement,
            definitions=definitions,
            presence=presence,
            admission=admission,
            settings=settings,
        )
        self._committer = _Committer()

    def drain(self, ticket: str | None = None) -> None:
        """Work until the queue has nothing, the turn is over, or the agent drains.

        Raises:
            Unconfirmed, StoreUnreachable: this slot cannot know whether it owns what it did. It must stop
                being a worker; its agent abandons it, and the store's state stands (G16).
        """
        bench = self._bench
        bench.begin_turn()
        bench.leases.ticket = ticket
        then = Next(bench.leases.claim(popped=ticket is not None), asked=True)
        try:
            while then.grant is not None or not then.asked:
                if then.grant is not None:
                    then = self._work(then.grant)
                elif bench.stopping():
                    break
                else:
                    then = Next(bench.leases.claim(), asked=True)
        except Stop as stop:
            raise stop.error from stop
        # Not in a `finally`: an error of the engine ends the slot, and is charged to what it was doing.
        bench.presence.show(Phase.IDLE, [])
        bench.leases.ticket = None

    def _work(self, grant: Grant) -> Next:
        try:
            refused = self._refusal(grant)
            if refused is not None:
                return self._give_back(grant, refused)
            return self._advance(grant) if grant.is_recipe else self._perform(grant)
        except LeaseLost as error:
            log.warning("%s", error, extra=log_fields(grant))
            return Next()

    # -- admission -------------------------------------------------------------------------------------------

    def _refusal(self, grant: Grant) -> Handoff | None:
        bench = self._bench
        if bench.presence.draining():
            return Handoff("drain", [])
        known = bench.definitions.recipes if grant.is_recipe else bench.definitions.tasks
        name = f"{grant.recipe}@{grant.version}" if grant.is_recipe else grant.task
        if name not in known:
            return Handoff("code_required", [f"{name} is not loaded here"])
        try:
            if not grant.is_recipe:
                decode(grant.params, where=f"the parameters of {grant.capability}")
            verdict = bench.admission.accept(grant)
        except Malformed as error:
            return Handoff("malformed", [str(error)])
        match verdict:
            case Handoff():
                return verdict
            case Admitted():
                return None
            case _:
                assert_never(verdict)

    def _give_back(self, grant: Grant, handoff: Handoff) -> Next:
        drains, malformed = handoff.reason == "drain", handoff.reason == "malformed"
        self._bench.leases.reschedule(
            grant,
            reason=handoff.reason,
            # What cannot be read here can be read nowhere: the queue is not at fault.
            avoid=not drains and not malformed,
            block=f"execution {grant.execution}: {handoff.mismatches[0]}" if malformed else None,
            mismatches=handoff.mismatches,
            allocation=str(self._bench.admission.allocation),
        )
        if not drains and not malformed:
            self._bench.admission.handed_off(grant, handoff)
        return Next()

    # -- the recipe route ------------------------------------------------------------------------------------

    def _advance(self, grant: Grant) -> Next:
        bench = self._bench
        bench.presence.show(Phase.RECIPE, [(grant.route, grant.token, True)])
        definition = bench.definitions.recipes[f"{grant.recipe}@{grant.version}"]
        frame = self._frame(grant, definition)
        self._committer.watch(frame)
        try:
            then = self._replay(definition, frame, grant)
        except Leave as leave:
            then = leave.then
        finally:
            self._committer.watch(None)
        if isinstance(frame.steps.over, Stop):
            raise frame.steps.over
        # What a recipe returns after it swallowed a signal is discarded.
        return frame.steps.over.then if isinstance(frame.steps.over, Leave) else then

    def _frame(self, grant: Grant, definition: RecipeDefinition[Any]) -> Frame:
        parts: tuple[dict[str, Any], dict[str, bytes]] = ({}, {})
        if grant.ordinals:
            parts = self._bench.executions.replay_parts(grant.instance, grant.execution)
        return Frame(self._bench, grant, Records(grant.execution, *parts), definition.needs)

    def _replay(self, definition: RecipeDefinition[Any], frame: Frame, grant: Grant) -> Next:
        where = f"execution {grant.execution}"
        token = recipe_running.set(definition.name)
        try:
            injected = {definition.skipped[0]: Run(frame)}
            params = decode(grant.params, where=f"{where}: its input")
            args, kwargs = definition.signature.load_call(params, injected)
            result = definition.func(*args, **kwargs)
            frame.steps.check_live()
            plain = definition.signature.dump_result(result)
            payload = encode(plain, limit=self._bench.settings.payload, where=f"{where}: its result")
        except ControlSignal:
            raise
        except Malformed as error:
            return frame.block(str(error))
        except BaseException as error:  # a recipe may raise anything; it fails with its cause
            if frame.steps.over is not None:
                raise frame.steps.over from error
            log.warning("%s failed: %s", where, describe(error), exc_info=error, extra=log_fields(grant))
            return frame.fail(describe(error))
        finally:
            recipe_running.reset(token)
        return frame.complete(payload)

    # -- a task route ----------------------------------------------------------------------------------------

    def _perform(self, grant: Grant) -> Next:
        bench = self._bench
        task = bench.definitions.tasks[grant.task]
        bench.presence.show(Phase.TASK, [(grant.route, grant.token, False)])
        if not bench.leases.mark_started(grant, on_timeout=on_timeout(task, grant.failures)):
            return Next()
        outcome = run_attempts(bench, task, grant)
        if isinstance(outcome, Deferred):
            return outcome.then
        return self._settle(outcome)

    def _settle(self, outcome: Settled) -> Next:
        lease, claim = outcome.lease, not self._bench.stopping()
        reply = self._bench.leases.step(
            instance=lease.instance,
            execution=lease.execution,
            settle={
                "capability": lease.capability,
                "token": lease.token,
                "status": outcome.status.value,
                "outcome": InvocationOutcome(outcome.status.value).value,
                **outcome.fields,
            },
            claim=claim,
        )
        return Next(reply.grant, asked=claim)


class _Committer:
    """A thread that records a result in hand when the recipe's own code takes its time."""

    def __init__(self) -> None:
        self._frame: Frame | None = None
        self._changed = threading.Event()
        self._thread: threading.Thread | None = None

    def watch(self, frame: Frame | None) -> None:
        self._frame = frame
        if frame is None:
            self._changed.clear()
            return
        if self._thread is None:
            self._thread = threading.Thread(target=self._run, name="tenure-committer", daemon=True)
            self._thread.start()
        self._changed.set()

    def _run(self) -> None:
        while True:
            self._changed.wait()
            time.sleep(IN_HAND_SECONDS / 2)
            frame = self._frame
            if frame is not None:
                frame.steps.commit_overdue()
