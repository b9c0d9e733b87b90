"""Errands of an agent that must not keep it from watching its slots: telling the store, waking the idle."""

from __future__ import annotations

import logging
import threading
from collections.abc import Collection
from dataclasses import dataclass
from queue import SimpleQueue
from typing import Final, assert_never

from tenure.model.status import SessionState
from tenure.wiring import Store
from tenure_workers.renewal import STORE_TROUBLES
from tenure_workers.rqside import forget_worker, unblock_workers

log = logging.getLogger(__name__)

_PAUSE_SECONDS: Final = 0.5
_WAKE_SECONDS: Final = 0.1


@dataclass(frozen=True, slots=True, kw_only=True)
class Abandon:
    """A slot life has ended; whatever it held is put down, charged to what it did last."""

    life: str
    queue: str
    worker: str
    cause: str
    charge: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Retire:
    """The session drains, or has gone."""

    session: str
    generation: int
    state: SessionState


Telling = Abandon | Retire

#: Set when everything that was left before it has been told.
Mark = threading.Event


class Teller:
    """Tells the store, in order, each until it is done. Every telling may be repeated without harm."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._tellings: SimpleQueue[Telling | Mark | None] = SimpleQueue()
        self._giving_up = threading.Event()
        self._thread = threading.Thread(target=self._run, name="teller", daemon=True)
        self._thread.start()

    def tell(self, telling: Telling) -> None:
        """Leave it for the teller."""
        self._tellings.put(telling)

    def wait(self, patience_seconds: float) -> bool:
        """Wait for so long until everything left so far is told; says whether it was."""
        mark = Mark()
        self._tellings.put(mark)
        return mark.wait(patience_seconds)

    def finish(self, patience_seconds: float) -> bool:
        """Say what is left to say, for so long; False if the store did not hear all of it."""
        self._tellings.put(None)
        self._thread.join(patience_seconds)
        heard_all = not self._thread.is_alive()
        self._giving_up.set()
        return heard_all

    def _run(self) -> None:
        while (telling := self._tellings.get()) is not None:
            while not self._giving_up.is_set():
                try:
                    self._carry(telling)
                    break
                except STORE_TROUBLES as error:
                    log.warning("%s is told again: %s", type(telling).__name__, error)
                except Exception:
                    log.exception("%s could not be told", telling)
                    break
                self._giving_up.wait(_PAUSE_SECONDS)

    def _carry(self, telling: Telling | Mark) -> None:
        match telling:
            case Mark():
                telling.set()
            case Abandon():
                self._abandon(telling)
            case Retire():
                self._store.sessions.retire(telling.session, telling.generation, telling.state)
            case _:
                assert_never(telling)

    def _abandon(self, dead: Abandon) -> None:
        store = self._store
        routes = store.sessions.abandon(
            dead.life, dead.queue, cause=dead.cause, charge=dead.charge, run=store.run_id()
        )
        for route in routes:
            log.warning("put down %s: %s", route, dead.cause, extra={"life": dead.life})
        forget_worker(store.client, dead.queue, dead.worker)


class Waker:
    """Unblocks idle workers again and again: one that was just about to wait would miss a single call."""

    def __init__(self, store: Store, workers: Collection[str]) -> None:
        self._store = store
        self._workers = workers
        self._closing = threading.Event()
        self._thread = threading.Thread(target=self._run, name="waker", daemon=True)
        self._thread.start()

    def close(self) -> None:
        """Wake nobody more."""
        self._closing.set()

    def _run(self) -> None:
        while not self._closing.is_set():
            try:
                unblock_workers(self._store.client, self._workers)
            except STORE_TROUBLES as error:
                log.info("idle slots look around by themselves: %s", error)
            self._closing.wait(_WAKE_SECONDS)
