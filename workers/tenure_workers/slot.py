"""A slot: the child process that runs user code, one thing at a time.

    python -m tenure_workers.slot PAGE_DESCRIPTOR CONTROL_DESCRIPTOR AGENT_PID

It loads the modules, reports what they offer, and waits. Its life begins when the agent sends its go-ahead:
an id that no other process ever had, under which it holds leases.
"""

from __future__ import annotations

import ctypes
import faulthandler
import json
import logging
import os
import signal
import socket
import sys
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any, Final, Self

from tenure.engine.definitions import Definitions, load_modules
from tenure.engine.driver import Driver
from tenure.engine.workset import Workset
from tenure.errors import InvalidInput, StoreUnreachable, Unconfirmed
from tenure.logs import configure
from tenure.model.allocation import Allocation
from tenure.settings import Settings
from tenure.store.grants import Holder
from tenure.store.leases import SlotLeases
from tenure.transport import tickets
from tenure.wiring import Store, open_store
from tenure_workers.admission import Admission
from tenure_workers.death import UNCONFIRMED_EXIT
from tenure_workers.page import SlotPage
from tenure_workers.rqside import SlotWorker, connect_for_rq

log = logging.getLogger(__name__)

USAGE_EXIT: Final = 2
_PR_SET_PDEATHSIG: Final = 1
_PAUSE_SECONDS: Final = 0.5


@dataclass(frozen=True, slots=True, kw_only=True)
class Assignment:
    """What an agent tells a slot before it loads user code."""

    url: str
    namespace: str
    modules: Sequence[str]
    #: Put in front of the import path, as `python -m` does.
    folder: str
    allocation: dict[str, Any]
    log_level: int

    def to_data(self) -> dict[str, Any]:
        """As it is sent."""
        return asdict(self)


@dataclass(frozen=True, slots=True, kw_only=True)
class GoAhead:
    """What begins a slot's life."""

    life: str
    session: str
    generation: int
    queue: str
    #: The slot's name among RQ's workers.
    worker: str

    def to_data(self) -> dict[str, Any]:
        """As it is sent."""
        return asdict(self)

    def holder(self, settings: Settings) -> Holder:
        """Who this slot is to the store. The server's run id is filled in when it is connected."""
        return Holder(
            life=self.life,
            session=self.session,
            generation=self.generation,
            queue=self.queue,
            run="",
            lease_ms=round(settings.lease.total_seconds() * 1000),
        )


class Control:
    """The slot's end of the socket to its agent: one JSON value per line."""

    def __init__(self, descriptor: int) -> None:
        os.set_inheritable(descriptor, False)
        self._socket = socket.socket(fileno=descriptor)
        self._lines = self._socket.makefile("r", encoding="utf-8")

    def send(self, message: dict[str, Any]) -> None:
        """Tell the agent."""
        self._socket.sendall(json.dumps(message).encode() + b"\n")

    def receive(self) -> dict[str, Any]:
        """Wait for the agent. Raises SystemExit if it has gone."""
        line = self._lines.readline()
        if not line:
            raise SystemExit(0)
        message: dict[str, Any] = json.loads(line)
        return message

    @classmethod
    def from_argument(cls, text: str) -> Self:
        """The inherited descriptor."""
        return cls(int(text))


def main(arguments: Sequence[str]) -> int:
    """Live one slot life; returns the exit code."""
    page_descriptor, control_descriptor, agent_pid = arguments
    _end_with_agent(int(agent_pid))
    faulthandler.enable()
    # Until RQ's loop says so again: a signal to every process of a service must not end a slot (see rqside).
    signal.signal(signal.SIGTERM, _ignore)
    signal.signal(signal.SIGINT, _ignore)
    tickets.install()
    page = SlotPage.attach(int(page_descriptor))
    control = Control.from_argument(control_descriptor)
    assignment = Assignment(**control.receive())
    configure(assignment.log_level)
    if assignment.folder not in sys.path:
        sys.path.insert(0, assignment.folder)
    try:
        definitions = load_modules(assignment.modules)
    except InvalidInput as error:
        control.send({"error": str(error)})
        return USAGE_EXIT
    control.send({"catalogue": definitions.catalogue.to_data()})
    go = GoAhead(**control.receive())
    return _live(assignment, go, definitions, page)


def _live(assignment: Assignment, go: GoAhead, definitions: Definitions, page: SlotPage) -> int:
    extra = {"session": go.session, "life": go.life}
    try:
        with (
            _open_patiently(assignment, page) as store,
            connect_for_rq(assignment.url, go.worker) as connection,
        ):
            leases = store.slot_leases(go.holder(store.settings))
            SlotWorker(
                queue=go.queue,
                name=go.worker,
                connection=connection,
                driver=_driver(store, leases, definitions, page, assignment),
                page=page,
                on_connected=lambda: _note_run(store, leases),
            ).run()
    except (Unconfirmed, StoreUnreachable) as error:
        # Not a bug: the store's state stands, and this process must not go on as an owner (G16).
        log.warning("this slot ends, its agent starts another: %s", error, extra=extra)
        return UNCONFIRMED_EXIT
    log.info("slot %s has drained", go.worker, extra=extra)
    return 0


def _open_patiently(assignment: Assignment, page: SlotPage) -> Store:
    """Open the store. A server that is away when a slot begins is waited for, as by one that is idle."""
    while True:
        try:
            return open_store(assignment.url, namespace=assignment.namespace, environment=os.environ)
        except StoreUnreachable as error:
            if page.draining():
                raise
            log.warning("waiting: %s", error)
            time.sleep(_PAUSE_SECONDS)


def _driver(
    store: Store, leases: SlotLeases, definitions: Definitions, page: SlotPage, assignment: Assignment
) -> Driver:
    admission = Admission(leases, Allocation.from_data(assignment.allocation), presence=page)
    return Driver(
        leases=leases,
        executions=store.executions,
        placement=store.placement,
        workset=Workset.of(definitions, admission),
        presence=page,
        admission=admission,
        settings=store.settings,
    )


def _note_run(store: Store, leases: SlotLeases) -> None:
    """A restarted server has another run id, and claims name the one they were made under."""
    leases.holder = replace(leases.holder, run=store.run_id())


def _end_with_agent(agent_pid: int) -> None:
    """Die when the agent does, by the kernel's hand where it offers that; the guard sees to the group."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != agent_pid:  # it died before the kernel was asked
        raise SystemExit(0)


def _ignore(_signal: int, _frame: object) -> None:
    """Do nothing; not SIG_IGN, which programs that a task starts would inherit."""


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
