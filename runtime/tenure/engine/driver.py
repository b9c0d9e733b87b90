"""The driver works through leases in one slot: claim, act, settle, take what comes next."""

from __future__ import annotations

import logging
import threading
import time
from functools import partial
from typing import Any

from tenure.engine.admission import Admission
from tenure.engine.attempt import describe
from tenure.engine.attempts import Deferred, Settled, on_timeout, run_attempts
from tenure.engine.bench import Bench
from tenure.engine.context import log_fields
from tenure.engine.definitions import RecipeDefinition
from tenure.engine.live import LiveFrame
from tenure.engine.placement import Code, Placement
from tenure.engine.presence import Phase, Presence
from tenure.engine.records import Records
from tenure.engine.run import run_recipe
from tenure.engine.signals import ControlSignal, Leave, Next, Stop
from tenure.engine.steps import IN_HAND_SECONDS
from tenure.engine.workset import Workset
from tenure.errors import LeaseLost, Malformed
from tenure.model.data import decode
from tenure.model.needs import Needs
from tenure.model.status import InvocationOutcome
from tenure.settings import Settings
from tenure.store.executions import Executions
from tenure.store.grants import Grant
from tenure.store.leases import SlotLeases

log = logging.getLogger(__name__)


class Driver:
    """One per slot life. `drain` is what a ticket makes the slot do, `pursue` works by name."""

    def __init__(
        self,
        *,
        leases: SlotLeases,
        executions: Executions,
        placement: Placement,
        workset: Workset,
        presence: Presence,
        admission: Admission,
        settings: Settings,
    ) -> None:
        self._bench = Bench(
            leases=leases,
            executions=executions,
            placement=placement,
            workset=workset,
            presence=presence,
            admission=admission,
            settings=settings,
        )
        self._committer = _Committer()

    def drain(self, ticket: str | None = None) -> bool:
        """Work until the queue has nothing, the turn is over, or the agent drains.

        Returns:
            Whether the queue had nothing more.

        Raises:
            Unconfirmed, StoreUnreachable: this slot cannot know whether it owns what it did. It must stop
                being a worker; its agent abandons it, and the store's state stands (G16).
        """
        bench = self._bench
        bench.begin_turn(claims=True)
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
        self._rest()
        return then.asked and then.grant is None

    def pursue(self, route: str) -> bool:
        """Work on one execution by name, wherever it waits and whatever it needs, and on nothing else.

        It ends when nothing of it can be claimed: it has ended, somebody else works on it, or it waits for a
        time or for others. It ends as well after a handoff, since this slot would only be granted again what
        it lacks something for.

        Args:
            route: `instance/execution/recipe`, or a task route, which then goes first.

        Returns:
            False if the agent drains, and something may have been left.

        Raises:
            Unconfirmed, StoreUnreachable: as `drain` does.
        """
        bench, then = self._bench, Next()
        bench.leases.ticket = None
        try:
            while not then.handed_off and not bench.presence.draining():
                # A turn of its own for each lease: no loop of RQ's waits for this one to end.
                bench.begin_turn(claims=False)
                grant = bench.leases.claim(target=route)
                if grant is None:
                    break
                then = self._work(grant)
        except Stop as stop:
            raise stop.error from stop
        self._rest()
        return not bench.presence.draining()

    def close(self) -> None:
        """End its thread. Nothing is driven after this."""
        self._committer.close()

    def _rest(self) -> None:
        # Not in a `finally`: an error of the engine ends the slot, and is charged to what it was doing.
        self._bench.presence.show(Phase.IDLE, [])
        self._bench.leases.ticket = None

    def _work(self, grant: Grant) -> Next:
        try:
            if not self._admit(grant):
                return Next(handed_off=True)
            return self._advance(grant) if grant.is_recipe else self._perform(grant)
        except LeaseLost as error:
            log.warning("%s", error, extra=log_fields(grant))
            return Next()

    # -- admission -------------------------------------------------------------------------------------------

    def _admit(self, grant: Grant) -> bool:
        """Whether this slot acts on a lease; if not, it has been given back."""
        bench = self._bench
        if bench.presence.draining():
            bench.leases.reschedule(grant, reason="drain")
            return False
        if (missing := self._missing_code(grant)) is not None:
            bench.leases.reschedule(
                grant, reason="code_required", avoid=True, mismatches=[f"{missing} is not loaded here"]
            )
            return False
        try:
            if not grant.is_recipe:
                decode(
                    grant.params, where=f"execution {grant.execution}: the parameters of {grant.capability}"
                )
            return bench.admission.accept(grant, base=self._base(grant))
        except Malformed as error:
            self._set_aside(grant, error)
            return False

    def _set_aside(self, grant: Grant, error: Malformed) -> None:
        # What cannot be read here can be read nowhere: it stops where it is, with its bytes (G17).
        self._bench.leases.reschedule(grant, reason="malformed", block=str(error), mismatches=[str(error)])

    def _missing_code(self, grant: Grant) -> str | None:
        if grant.is_recipe:
            return None if grant.code in self._bench.workset.recipes else grant.code
        return None if self._bench.workset.has_task(grant.task) else grant.task

    def _base(self, grant: Grant) -> Needs | None:
        return self._bench.workset.recipes[grant.code].needs if grant.is_recipe else None

    # -- the recipe route ------------------------------------------------------------------------------------

    def _advance(self, grant: Grant) -> Next:
        bench = self._bench
        bench.presence.show(Phase.RECIPE, [(grant.route, grant.token, True)])
        definition = bench.workset.recipes[grant.code]
        try:
            frame = self._frame(grant, definition)
        except Malformed as error:
            self._set_aside(grant, error)
            return Next()
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

    def _frame(self, grant: Grant, definition: RecipeDefinition[Any]) -> LiveFrame:
        parts: tuple[dict[str, Any], dict[str, bytes]] = ({}, {})
        if grant.ordinals:
            parts = self._bench.executions.replay_parts(grant.instance, grant.execution)
        # The base stays as it was published, whatever the code says by now.
        base = definition.needs if grant.demand is None else grant.published_demand().recipe
        params = partial(self._bench.executions.params, grant.instance, grant.execution)
        records = Records(grant.execution, *parts, params)
        return LiveFrame(self._bench, grant, records, base, Code(recipe=definition.key))

    def _replay(self, definition: RecipeDefinition[Any], frame: LiveFrame, grant: Grant) -> Next:
        try:
            payload = run_recipe(definition, frame, grant.params, payload_limit=self._bench.settings.payload)
        except ControlSignal:
            raise
        except Malformed as error:
            return frame.block(str(error))
        except BaseException as error:  # a recipe may raise anything; it fails with its cause
            if frame.steps.over is not None:
                raise frame.steps.over from error
            said = describe(error)
            log.warning(
                "execution %s failed: %s", grant.execution, said, exc_info=error, extra=log_fields(grant)
            )
            return frame.fail(said)
        return frame.complete(payload)

    # -- a task route ----------------------------------------------------------------------------------------

    def _perform(self, grant: Grant) -> Next:
        bench = self._bench
        task = bench.workset.task(grant.task)
        bench.presence.show(Phase.TASK, [(grant.route, grant.token, False)])
        if not bench.leases.mark_started(grant, on_timeout=on_timeout(task, grant.failures)):
            return Next()
        outcome = run_attempts(bench, task, grant)
        if isinstance(outcome, Deferred):
            return outcome.then
        return self._settle(outcome)

    def _settle(self, outcome: Settled) -> Next:
        lease, claim = outcome.lease, self._bench.takes_more
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
        self._frame: LiveFrame | None = None
        self._changed = threading.Event()
        self._closing = False
        self._thread: threading.Thread | None = None

    def watch(self, frame: LiveFrame | None) -> None:
        self._frame = frame
        if frame is None:
            self._changed.clear()
            return
        if self._thread is None:
            self._thread = threading.Thread(target=self._run, name="tenure-committer", daemon=True)
            self._thread.start()
        self._changed.set()

    def close(self) -> None:
        self._frame, self._closing = None, True
        self._changed.set()

    def _run(self) -> None:
        while self._changed.wait() and not self._closing:
            time.sleep(IN_HAND_SECONDS / 2)
            frame = self._frame
            if frame is not None:
                frame.steps.commit_overdue()
