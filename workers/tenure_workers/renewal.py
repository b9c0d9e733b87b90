"""Renewal: the one thread that keeps a session and everything its slots hold alive in the store.

It names what the slots have shown, so a task that keeps its interpreter's lock keeps its lease, and what a
dead slot held lapses. A slot that the kernel reports stopped is left out: nobody knows when it will go on.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Final

import redis

from tenure.errors import InvalidInput, StoreFull, StoreUnreachable, Unconfirmed
from tenure.settings import Settings
from tenure.store.sessions import Registration, Sessions
from tenure_workers.children import process_state
from tenure_workers.inbox import LeaseGone, Listener, NotRegistered, Registered, SessionGone, StopAsked
from tenure_workers.page import Shown, SlotPage
from tenure_workers.rqside import Leftovers, LiveWorker, renew_rq_entries

log = logging.getLogger(__name__)

#: What the store may answer that ends no agent: it says so, and tries again.
STORE_TROUBLES: Final = (Unconfirmed, StoreUnreachable, StoreFull, redis.RedisError, OSError)

_SWEEP_SECONDS: Final = 60.0


@dataclass(frozen=True, slots=True)
class Watched:
    """A slot life that is renewed. `worker` is its name among RQ's workers, None if it is none of them."""

    pid: int
    page: SlotPage
    worker: str | None


class Renewal:
    """Registers a session, renews it, and registers it again if the store has ended it."""

    def __init__(
        self,
        *,
        sessions: Sessions,
        client: redis.Redis,
        registration: Registration,
        settings: Settings,
        inbox: Listener,
    ) -> None:
        self._sessions = sessions
        self._client = client
        self._registration = registration
        self._lease_ms = round(settings.lease.total_seconds() * 1000)
        self._period = settings.renewal.total_seconds()
        self._inbox = inbox
        self._watched: dict[str, Watched] = {}
        self._guarding = threading.Lock()
        self._generation: int | None = None
        self._suspects: set[tuple[str, str, int]] = set()
        self._leftovers = Leftovers(client, registration.queue)
        self._swept_at = time.monotonic()
        self._closing = threading.Event()
        self._thread = threading.Thread(target=self._run, name="renewal", daemon=True)

    def start(self) -> None:
        """Begin, by registering."""
        self._thread.start()

    def close(self, patience_seconds: float) -> None:
        """Renew nothing more. A call that is under way may outlast the patience; it changes no lease then."""
        self._closing.set()
        self._thread.join(patience_seconds)

    def watch(self, life: str, watched: Watched) -> None:
        """Renew what this slot shows from now on."""
        with self._guarding:
            self._watched[life] = watched

    def unwatch(self, life: str) -> None:
        """Renew it no more; its page may be closed after this."""
        with self._guarding:
            self._watched.pop(life, None)

    def run_once(self) -> None:
        """Renew once, or register if there is no session.

        Raises:
            Unconfirmed, StoreUnreachable, StoreFull, redis.RedisError: nothing is known to be lost by this.
        """
        if self._generation is None:
            self._register()
            return
        shown = self._shown()
        pairs = sorted({pair for slot in shown.values() for pair in slot.leases})
        renewed = self._sessions.renew(
            self._registration.session, self._generation, pairs, lease_ms=self._lease_ms
        )
        if renewed is None:
            log.warning(
                "the store has ended session %s; its slots begin again under another generation",
                self._registration.session,
                extra={"session": self._registration.session},
            )
            self._generation = None
            self._inbox.put(SessionGone(self._registration.nonce))
            return
        for route, token in renewed.cancelled:
            self._inbox.put(StopAsked(route, token))
        self._judge(renewed.lost, shown)
        self._keep_up_rq(shown)

    def _run(self) -> None:
        while not self._closing.is_set():
            began = time.monotonic()
            had_session = self._generation is not None
            try:
                self.run_once()
            except STORE_TROUBLES as error:
                log.warning(
                    "leases could not be renewed: %s", error, extra={"session": self._registration.session}
                )
            except Exception:
                log.exception("renewal failed", extra={"session": self._registration.session})
            if had_session and self._generation is None:
                continue  # register at once
            self._closing.wait(max(0.05, began + self._period - time.monotonic()))

    def _register(self) -> None:
        registration = self._registration
        try:
            generation = self._sessions.register(registration, lease_ms=self._lease_ms)
        except InvalidInput as error:
            self._inbox.put(NotRegistered(registration.nonce, str(error)))
            return
        self._suspects.clear()
        self._generation = generation
        log.info(
            "registered %s, generation %d, on queue %s",
            registration.session,
            generation,
            registration.queue,
            extra={"session": registration.session},
        )
        self._inbox.put(Registered(registration.nonce, generation))

    def _shown(self) -> dict[str, Shown]:
        with self._guarding:
            return {
                life: slot.page.read()
                for life, slot in self._watched.items()
                if process_state(slot.pid) not in ("T", "t")
            }

    def _judge(self, lost: Collection[tuple[str, int]], shown: Mapping[str, Shown]) -> None:
        """A pair is lost when it is so twice in a row and still shown: a slot may be about to drop it."""
        suspects = {
            (life, route, token)
            for life, slot in shown.items()
            for route, token, _ in slot.leases
            if (route, token) in lost
        }
        still = self._shown() if suspects & self._suspects else {}
        for life, route, token in suspects & self._suspects:
            if any(pair[:2] == (route, token) for pair in still.get(life, Shown()).leases):
                self._inbox.put(LeaseGone(life, route))
        self._suspects = suspects

    def _keep_up_rq(self, shown: Mapping[str, Shown]) -> None:
        with self._guarding:
            names = {life: slot.worker for life, slot in self._watched.items()}
        workers = [LiveWorker(name, slot.entry) for life, slot in shown.items() if (name := names.get(life))]
        renew_rq_entries(self._client, self._registration.queue, workers)
        if time.monotonic() - self._swept_at > _SWEEP_SECONDS:
            self._swept_at = time.monotonic()
            self._leftovers.run_once()
