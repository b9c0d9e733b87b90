"""RQ's loop in a slot. No error on RQ's side ends it; only the agent's wish or the driver does.

RQ's own `work` leaves its loop at the first error it does not know. So each step that it calls is replaced by
one that waits for the server. What a dashboard shows is kept true by two pipelines for each ticket; nothing
is decided by it, so what an outage swallows is swept up later (`upkeep`).

Commands for a ticket whose driver does nothing, on rq 3.0.0: `SimpleWorker` 53 in 19 round
trips, this class 22 in 5.
"""

# ruff: noqa: ARG002  # the signatures are RQ's

from __future__ import annotations

import logging
import os
import signal
import socket
import time
from collections.abc import Callable
from types import FrameType
from typing import Any, Final, Protocol, TypeVar

import redis
from redis.client import Pipeline
from rq import SimpleWorker, worker_registration
from rq.exceptions import DequeueTimeout
from rq.executions import Execution
from rq.intermediate_queue import IntermediateQueue
from rq.job import Job
from rq.queue import Queue
from rq.suspension import WORKERS_SUSPENDED
from rq.utils import now, utcformat
from rq.worker import WorkerStatus

from tenure.errors import StoreFull
from tenure.store.connection import connect
from tenure.transport.tickets import MsgpackSerializer
from tenure_workers.page import SlotPage
from tenure_workers.rqside.tickets import NoDeathPenalty, TicketJob, TicketQueue

log = logging.getLogger(__name__)

T = TypeVar("T")

#: RQ blocks for 15 s less than this: an idle slot looks around every 5 s.
WORKER_TTL_SECONDS: Final = 20
#: What stands for a slot on RQ's side lives this long without renewal, which comes with that of the leases.
KEPT_SECONDS: Final = 90
_SOCKET_TIMEOUT_SECONDS: Final = 15.0
_FIRST_PAUSE_SECONDS: Final = 0.1
_LONGEST_PAUSE_SECONDS: Final = 2.0
_SUSPENDED_SECONDS: Final = 1.0
_LOOK_SECONDS: Final = 0.1

#: A server that is down, loading, full, failing over, or where somebody gave RQ's key another type.
OUTAGES: Final = (redis.RedisError, OSError)


class Drains(Protocol):
    """What a ticket sets to work: `tenure.engine.driver.Driver`."""

    def drain(self, ticket: str | None = None) -> object:
        """Work until there is nothing left to do here."""


def connect_for_rq(url: str, name: str) -> redis.Redis:
    """The connection of one worker, named so that its agent finds it; it may wait longer than a pop."""
    return connect(url, client_name=name, socket_timeout=_SOCKET_TIMEOUT_SECONDS)


class SlotWorker(SimpleWorker):
    """RQ's worker of one slot, on one queue."""

    death_penalty_class = NoDeathPenalty
    queue_class = TicketQueue
    job_class = TicketJob

    def __init__(
        self,
        *,
        queue: str,
        name: str,
        connection: redis.Redis,
        driver: Drains,
        page: SlotPage,
        on_connected: Callable[[], None],
    ) -> None:
        tickets = TicketQueue(
            queue,
            connection=connection,
            job_class=TicketJob,
            serializer=MsgpackSerializer,
            death_penalty_class=NoDeathPenalty,
        )
        # Not `prepare_for_work`: that talks to the server, which may be away just now.
        super().__init__(
            [tickets],
            name=name,
            connection=connection,
            worker_ttl=WORKER_TTL_SECONDS,
            serializer=MsgpackSerializer,
            prepare_for_work=False,
        )
        self.hostname, self.pid = socket.gethostname(), os.getpid()
        self._tickets = tickets
        self._driver = driver
        self._page = page
        self._on_connected = on_connected
        self._connected = False
        self._failure: Exception | None = None

    def run(self) -> None:
        """Work until the agent drains.

        Raises:
            Unconfirmed, StoreUnreachable: the driver must not go on; see `Driver.drain`.
            Exception: whatever else the driver did not expect.
        """
        self.work()
        if self._failure is not None:
            raise self._failure

    # --- the steps of RQ's `work`, in the order it takes them ---

    def bootstrap(
        self, logging_level: str | None = None, date_format: str = "", log_format: str = ""
    ) -> None:
        """Nothing yet: the worker announces itself once the server answers.

        RQ would add log handlers of its own, and a thread that listens for stop-job and kill-horse. Those
        stop processes by RQ's idea of who runs what; ours are stopped through the execution.
        """
        self.birth_date = self.last_heartbeat = now()

    def _install_signal_handlers(self) -> None:
        """The agent decides when a slot leaves, and says so on the page.

        A handler of ours, not SIG_IGN: programs that a task starts would inherit that, and could not be
        stopped.
        """
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, _leave_it_to_the_agent)

    def check_for_suspension(self, burst: bool) -> None:  # noqa: FBT001  # RQ's signature
        """Part of waiting for a ticket, where a lost connection is waited out."""

    @property
    def should_run_maintenance_tasks(self) -> bool:
        """Never: RQ would fail, or retry, tickets of slots it thinks lost (G10); agents sweep instead."""
        return False

    def dequeue_job_and_maintain_ttl(
        self, timeout: int | None, max_idle_time: int | None = None
    ) -> tuple[Job, Queue] | None:
        """Wait for a ticket. None, which ends the loop, when the agent drains or the driver has failed."""
        while not self._page.draining() and self._failure is None:
            try:
                found = self._patiently(lambda: self._next_ticket(timeout))
            except DequeueTimeout:  # none came, or the agent unblocked the connection
                continue
            if found is not None:
                return found
        return None

    def execute_job(self, job: Job, queue: Queue) -> None:
        """Let the driver drain, with what RQ keeps about a running job around it."""
        started = time.monotonic()
        execution = self._begin(job)
        self._page.show_entry(execution.composite_key)
        try:
            self._drain(job.id)
        finally:
            self._page.show_entry("")
            self._end(job, execution, time.monotonic() - started)

    def heartbeat(self, timeout: int | None = None, pipeline: Pipeline | None = None) -> None:
        """Part of waiting for a ticket; while one runs, the agent renews."""

    def teardown(self) -> None:
        """Leave RQ's registries. What an outage keeps there expires."""
        try:
            self.register_death()  # type: ignore[no-untyped-call]
        except OUTAGES as error:
            log.info("RQ was not told that %s ends: %s", self.name, error)

    # --- ours ---

    def _next_ticket(self, timeout: int | None) -> tuple[Job, Queue] | None:
        if not self._connected:
            self._announce()
            self._on_connected()
            self._connected = True
            # Tickets written meanwhile may be lost, and placement must learn that this slot is idle.
            self._drain(None)
            return None
        if self._is_suspended():
            self._rest(_SUSPENDED_SECONDS)
            return None
        return TicketQueue.dequeue_any([self._tickets], timeout, connection=self.connection)

    def _patiently(self, act: Callable[[], T]) -> T | None:
        """Repeat `act` until the server answers; None if the agent drains first."""
        pause = _FIRST_PAUSE_SECONDS
        while not self._page.draining():
            try:
                return act()
            except OUTAGES as error:
                self._connected = False
                log.warning("RQ's queue %s cannot be read, waiting: %s", self._tickets.name, error)
            self._rest(pause)
            pause = min(pause * 2, _LONGEST_PAUSE_SECONDS)
        return None

    def _rest(self, seconds: float) -> None:
        until = time.monotonic() + seconds
        while time.monotonic() < until and not self._page.draining():
            time.sleep(_LOOK_SECONDS)

    def _announce(self) -> None:
        self._set_ip_address(self.connection)
        self.last_heartbeat = now()
        with self.connection.pipeline(transaction=False) as pipe:
            pipe.hset(self.key, mapping={**self.serialize(), "state": WorkerStatus.STARTED.value})
            pipe.expire(self.key, KEPT_SECONDS)
            worker_registration.register(self, pipe)
            pipe.execute()

    def _is_suspended(self) -> bool:
        """Say that the worker lives and is idle; returns whether `rq suspend` holds all workers."""
        with self.connection.pipeline(transaction=False) as pipe:
            mapping: dict[Any, Any] = {"state": WorkerStatus.IDLE.value, "last_heartbeat": utcformat(now())}
            pipe.hset(self.key, mapping=mapping)
            pipe.expire(self.key, KEPT_SECONDS)
            pipe.exists(WORKERS_SUSPENDED)
            added, _, suspended = pipe.execute()
        if added == len(mapping):  # it had expired
            self._announce()
        return bool(suspended)

    def _drain(self, ticket: str | None) -> None:
        try:
            self._driver.drain(ticket)
        except StoreFull as error:
            log.warning("%s", error)
            self._rest(_LONGEST_PAUSE_SECONDS)
        except Exception as error:  # noqa: BLE001  # RQ's loop would log it and exit as if nothing were wrong
            self._failure = error

    def _begin(self, job: Job) -> Execution:
        with self.connection.pipeline(transaction=False) as pipe:
            execution = Execution.create(job, KEPT_SECONDS, pipeline=pipe, worker_name=self.name)
            self.executions[execution.id] = execution
            self.set_state(WorkerStatus.BUSY, pipeline=pipe)
            job.prepare_for_execution(self.name, pipeline=pipe)
            pipe.lrem(IntermediateQueue.get_intermediate_queue_key(self._tickets.key), 1, job.id)
            _send(pipe)
        return execution

    def _end(self, job: Job, execution: Execution, seconds: float) -> None:
        with self.connection.pipeline(transaction=False) as pipe:
            self.cleanup_execution(job, pipeline=pipe, execution=execution)
            pipe.delete(job.key)
            self.increment_successful_job_count(pipeline=pipe)
            pipe.hincrbyfloat(self.key, "total_working_time", seconds)
            _send(pipe)


def _send(pipe: Pipeline) -> None:
    """Send what only a dashboard reads. Not in a transaction, of which a full server refuses every part."""
    try:
        refused = [reply for reply in pipe.execute(raise_on_error=False) if isinstance(reply, Exception)]
    except OUTAGES as error:
        refused = [error]
    if refused:
        log.warning("RQ's view of this slot is not up to date: %s", refused[0])


def _leave_it_to_the_agent(_signal: int, _frame: FrameType | None) -> None:
    """Do nothing."""
