"""A worker inside the process that uses it: one slot, whose tasks run in the thread that calls.

To the store it is an ordinary session: it is listed, work is placed on it, and when it goes what waits for it
goes elsewhere. Renewal and the errands of an agent have their threads here as there; user code has none.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import signal
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from types import FrameType, TracebackType
from typing import Final, Self

from tenure import Client
from tenure.engine.definitions import Definitions, load_modules
from tenure.engine.driver import Driver
from tenure.engine.handoff import HandoffEvent
from tenure.engine.signals import Stop
from tenure.engine.workset import Workset
from tenure.errors import InvalidInput, StoreUnreachable, TenureError
from tenure.model.allocation import Allocation, check_allocation
from tenure.model.names import check_pool
from tenure.model.status import ExecutionStatus
from tenure.store.keys import RECIPE, route_member
from tenure.store.leases import SlotLeases
from tenure_workers.admission import Admission
from tenure_workers.membership import Membership
from tenure_workers.page import SlotPage
from tenure_workers.place import Life, charge_of
from tenure_workers.plan import Plan
from tenure_workers.registration import session_name
from tenure_workers.renewal import Watched
from tenure_workers.standing import Standing
from tenure_workers.telling import Abandon, Teller

log = logging.getLogger(__name__)

_PATIENCE_SECONDS: Final = 5.0
_INTERRUPTED: Final = "interrupted by its user"


@dataclass(frozen=True, slots=True)
class _Living:
    """A life of the slot: its page, and what works in it."""

    life: Life
    generation: int
    page: SlotPage
    leases: SlotLeases
    driver: Driver


class InProcessWorker:
    """Runs tasks and recipes in the thread that calls `work` or `run`, one thing at a time.

    For applications that have no worker processes, and for their tests. What it does not have is a process
    for each slot, which an agent could stop:

    - A task's `timeout` is not enforced: an attempt that takes longer goes on, and its outcome counts.
    - A cancelled task sees `ctx.cancelled`; one that does not look runs to its end, beyond any grace period.
      So does one that has lost its lease, whose outcome is then refused.
    - A crash of the process is the death of a host: leases lapse, and the takeover scan of a scheduler brings
      the work back. An interrupt (Ctrl-C) is no crash: it puts the work down at once, and is raised.
    - Timers and late retries need a scheduler, as everywhere.

    Between calls it is not counted as idle, so what starts meanwhile is placed elsewhere if a slot is idle
    there. What was placed on its queue waits until `work` is called, another slot that fits has nothing else
    to do, or the worker is stopped.

    Args:
        client: whose server and namespace it works for, and whose executions `run` names. Stop the worker
            before the client is closed.
        code: module names, as `tenure worker --import` takes them, or a set of definitions.
        allocation: what a task can use here; by default nothing is known, which satisfies no need.
        pool: which pool its queue belongs to.
        name: the name of its session among all; by default a random one.
        on_handoff: told, in the calling thread, that work was given back for want of something. It may call
            `stop`: the slot holds nothing then, and takes nothing more.

    Raises:
        ModuleNotLoadable: a module does not exist or raises.
        InvalidInput: a live worker has the same name.
        StoreUnreachable: the session could not be registered in time.
    """

    def __init__(
        self,
        client: Client,
        code: Definitions | Sequence[str],
        *,
        allocation: Allocation | None = None,
        pool: str = "in-process",
        name: str | None = None,
        on_handoff: Callable[[HandoffEvent], None] | None = None,
    ) -> None:
        self._client = client
        self._store = client.store
        self._definitions = code if isinstance(code, Definitions) else load_modules(_modules(code))
        self._allocation = check_allocation(allocation)
        self._on_handoff = on_handoff
        #: The name of its session.
        self.name = session_name(name)
        self._guarding = threading.Lock()
        self._working_in: int | None = None
        self._stopping = False
        self._living: _Living | None = None
        self._standing = Standing(self.name)
        settings = self._store.settings
        # Its renewals must name what it holds now, so one is given up when the next is due.
        hurried = self._store.with_resend(min(settings.resend, settings.renewal))
        self._teller = Teller(hurried)
        self._membership = Membership(
            session=self.name,
            plan=Plan(pool=check_pool(pool), modules=(), slots=1, allocation=self._allocation),
            catalogue=self._definitions.catalogue,
            store=hurried,
            settings=settings,
            inbox=self._standing,
            teller=self._teller,
        )
        try:
            self._standing.generation(settings.resend)
        except BaseException:
            self.stop()
            raise

    # -- working ---------------------------------------------------------------------------------------------

    def work(self) -> None:
        """Work until nothing waits in the queue, or the worker is stopped.

        Raises:
            Unconfirmed, StoreUnreachable: it cannot know whether it owns what it did; the store's state
                stands. It may be called again.
            InvalidInput: the worker has stopped or is working already, or an event loop runs in this thread.
        """
        self._act(Driver.drain)

    def run(self, execution_id: str) -> ExecutionStatus:
        """Work on one execution of the client's instance, wherever it waits, until it cannot go on here.

        Returns:
            Its status then. One that is not terminal waits for a time, for another worker, or for an
            environment that this one does not have; `Handle.explain` says which.

        Raises:
            ExecutionNotFound: no execution of this id belongs to the client's instance.
            Unconfirmed, StoreUnreachable, InvalidInput: as `work` does.
        """
        handle = self._client.get(execution_id)
        handle.status()
        route = route_member(self._client.instance, handle.id, RECIPE)
        self._act(lambda driver: driver.pursue(route))
        return handle.status()

    @property
    def stopped(self) -> bool:
        """Whether it was told to stop."""
        return self._stopping

    def stop(self) -> None:
        """Take no more work, give back what has not started, and end the session.

        What a task has begun is finished first: if it runs in another thread, this returns at once, and the
        session ends with the task.
        """
        with self._guarding:
            if self._stopping:
                return
            self._stopping = True
            working_in = self._working_in
            self._standing.drain()
            self._membership.generation = self._standing.known
            self._membership.drain()
        if working_in is None:
            self._leave()
        elif working_in == threading.get_ident():
            # What is given back from now on is not to come back to this queue.
            self._teller.wait(_PATIENCE_SECONDS)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()

    def _act(self, act: Callable[[Driver], bool]) -> None:
        self._begin_work()
        try:
            with _interruptible():
                while not self._stopping and not act(self._driver()):
                    pass  # its turn is over, or its session has gone and comes back under another generation
        except Stop as stop:  # an interrupt between two leases
            self._end_life(_INTERRUPTED)
            raise stop.error from stop
        except KeyboardInterrupt:
            self._end_life(_INTERRUPTED)
            raise
        except BaseException as error:
            self._end_life(f"its worker met {error!r}", is_ours=isinstance(error, TenureError))
            raise
        else:
            self._look_away()
        finally:
            self._end_work()

    def _look_away(self) -> None:
        """Nobody works here until the next call, so what others start is better placed elsewhere."""
        living = self._living
        if living is not None and not self._stopping:
            with contextlib.suppress(StoreUnreachable):
                self._store.sessions.look_away(living.life.queue, living.life.id)

    def _begin_work(self) -> None:
        _refuse_event_loop()
        with self._guarding:
            if self._stopping:
                raise InvalidInput(f"worker {self.name} has stopped; make another one")
            if self._working_in is not None:
                raise InvalidInput(f"worker {self.name} is working already; it does one thing at a time")
            self._working_in = threading.get_ident()

    def _end_work(self) -> None:
        with self._guarding:
            self._working_in = None
            leaving = self._stopping
        if leaving:
            self._leave()

    # -- its session, and the lives of its slot --------------------------------------------------------------

    def _driver(self) -> Driver:
        """What works under the present generation of the session."""
        generation = self._standing.generation(self._store.settings.resend)
        if self._living is not None and self._living.generation != generation:
            self._end_life("its session had expired")
        if self._living is None:
            self._living = self._begin_life(generation)
        leases = self._living.leases
        # A restarted server has another run id, and claims name the one they were made under.
        leases.holder = replace(leases.holder, run=self._store.run_id())
        return self._living.driver

    def _begin_life(self, generation: int) -> _Living:
        store, membership = self._store, self._membership
        membership.generation = generation
        life, go = membership.new_life(0)
        page = SlotPage.create()
        leases = store.slot_leases(go.holder(store.settings))
        admission = Admission(leases, self._allocation, presence=page, on_handoff=self._on_handoff)
        driver = Driver(
            leases=leases,
            executions=store.executions,
            placement=store.placement,
            workset=Workset.of(self._definitions, admission),
            presence=page,
            admission=admission,
            settings=store.settings,
        )
        membership.renewal.watch(life.id, Watched(os.getpid(), page, None))
        self._standing.watch(page)
        if self._stopping:
            page.request_drain()
        return _Living(life, generation, page, leases, driver)

    def _end_life(self, because: str, *, is_ours: bool = True) -> None:
        """Put down whatever this life holds. A crash that is not ours counts for what it was doing."""
        living, self._living = self._living, None
        if living is None:
            return
        self._membership.renewal.unwatch(living.life.id)
        self._standing.watch(None)
        charge = None if is_ours else charge_of(living.page.read())
        living.driver.close()
        living.page.close()
        life = living.life
        self._teller.tell(
            Abandon(life=life.id, queue=life.queue, worker=life.worker, cause=because, charge=charge)
        )
        self._teller.wait(_PATIENCE_SECONDS)

    def _leave(self) -> None:
        self._end_life("its worker has stopped")
        self._membership.generation = self._standing.known
        self._membership.end()
        if not self._teller.finish(_PATIENCE_SECONDS):
            log.warning("the store did not hear that %s has gone; its leases lapse", self.name)


def _modules(code: Sequence[str]) -> Sequence[str]:
    return [code] if isinstance(code, str) else code


def _refuse_event_loop() -> None:
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return
    raise InvalidInput(
        "an event loop runs in this thread, which tasks would block; from a coroutine, "
        "`await asyncio.to_thread(worker.work)`"
    )


@contextmanager
def _interruptible() -> Iterator[None]:
    """Let Ctrl-C put the work down; raised in a task as what it is, it would be a failure of that task."""
    is_main = threading.current_thread() is threading.main_thread()
    if not is_main or signal.getsignal(signal.SIGINT) is not signal.default_int_handler:
        yield
        return
    signal.signal(signal.SIGINT, _interrupt)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, signal.default_int_handler)


def _interrupt(_number: int, _frame: FrameType | None) -> None:
    raise Stop(KeyboardInterrupt())
