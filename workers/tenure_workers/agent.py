"""The agent: N slots, one session, no user code.

The main thread only watches processes, so it sees a death at once, whatever the store does: it starts slots,
buries dead ones with their groups, and obeys signals. Renewal and errands have threads of their own
(`renewal`, `telling`), which leave events in its inbox.
"""

from __future__ import annotations

import logging
import os
import selectors
import sys
import time
from collections.abc import Callable
from typing import Final, assert_never

from tenure.settings import Settings
from tenure.store.sessions import Catalogue
from tenure.wiring import Store
from tenure_workers.children import SlotProcess
from tenure_workers.inbox import Event, Inbox, LeaseGone, NotRegistered, Registered, SessionGone, StopAsked
from tenure_workers.membership import Membership
from tenure_workers.place import Death, Life, Place
from tenure_workers.plan import Plan
from tenure_workers.registration import session_name
from tenure_workers.renewal import Watched
from tenure_workers.slot import USAGE_EXIT
from tenure_workers.stopping import StopSignals
from tenure_workers.telling import Abandon, Teller, Waker

log = logging.getLogger(__name__)

_LOOK_SECONDS: Final = 1.0
#: How often in a row a slot may die while it loads its modules, at first.
STILLBIRTHS: Final = 3
_DRAIN_LOOK_SECONDS: Final = 0.05
_FAREWELL_SECONDS: Final = 5.0


class Agent:
    """Runs until it is told to stop, or cannot begin."""

    def __init__(self, store: Store, plan: Plan, settings: Settings) -> None:
        self._store = store
        self._plan = plan
        self._settings = settings
        self._session = session_name(plan.name)
        self._places = [Place(number) for number in range(plan.slots)]
        self._inbox = Inbox()
        self._selector = selectors.DefaultSelector()
        self._selector.register(self._inbox, selectors.EVENT_READ)
        self._teller = Teller(store)
        self._membership: Membership | None = None
        self._name_taken_until: float | None = None
        self._looked_at = 0.0
        self._stop_signals = StopSignals()
        self._draining_until: float | None = None
        self._waker: Waker | None = None
        self._exit_code = 0

    def run(self) -> int:
        """Work until SIGTERM or SIGINT; call from the main thread. Returns the exit code."""
        with self._stop_signals.caught(self._inbox.wakeup_descriptor()):
            try:
                while not self._has_finished():
                    self._step()
            finally:
                self._leave()
        return self._exit_code

    # --- one turn of the loop ---

    def _step(self) -> None:
        self._selector.select(self._patience())
        for event in self._inbox.take():
            self._obey(event)
        for place in self._places:
            if place.process is not None:
                self._attend(place)
            place.enforce()
        self._advance_stop()
        if self._draining_until is None:
            self._start_due()
        self._look()

    def _patience(self) -> float:
        if self._draining_until is not None:
            return _DRAIN_LOOK_SECONDS
        dues = [place.due_at for place in self._places if place.process is None]
        return min([_LOOK_SECONDS, *(max(0.0, due - time.monotonic()) for due in dues)])

    def _attend(self, place: Place) -> None:
        assert place.process is not None  # noqa: S101  # the caller has looked
        if place.process.has_died():
            self._bury(place)
        elif place.life is None and place.receive():
            self._hear(place)

    def _look(self) -> None:
        if time.monotonic() - self._looked_at < _LOOK_SECONDS:
            return
        self._looked_at = time.monotonic()
        for place in self._places:
            if place.process is not None:
                place.process.look()

    # --- slots ---

    def _start_due(self) -> None:
        for place in self._places:
            if place.process is None and place.due_at <= time.monotonic():
                self._start(place)

    def _start(self, place: Place) -> None:
        environment = {**os.environ, **self._settings.to_environment()}
        try:
            process = SlotProcess.spawn(environment=environment)
        except OSError as error:  # no memory, too many processes
            log.error("slot %d cannot be started: %s", place.number, error)  # noqa: TRY400  # says it all
            place.due_at = time.monotonic() + _LOOK_SECONDS
            return
        place.occupy(process)
        self._selector.register(process.control, selectors.EVENT_READ)
        place.send(self._plan.assignment(self._store).to_data())

    def _hear(self, place: Place) -> None:
        """A slot has loaded its modules, or could not."""
        assert place.process is not None  # noqa: S101  # it has just reported
        self._selector.unregister(place.process.control)
        report = place.report or {}
        if "catalogue" not in report:
            return  # it ends by itself, and is buried with its report
        catalogue = Catalogue.from_data(report["catalogue"])
        if self._membership is None or (
            catalogue != self._membership.catalogue and not any(p.life for p in self._places)
        ):
            self._register(catalogue)
        self._begin_life(place)

    def _register(self, catalogue: Catalogue) -> None:
        """Begin a session. With other code than before it is another one, on another queue."""
        if self._membership is not None:
            self._membership.end()
        self._membership = Membership(
            session=self._session,
            plan=self._plan,
            catalogue=catalogue,
            store=self._store,
            settings=self._settings,
            inbox=self._inbox,
            teller=self._teller,
        )

    def _begin_life(self, place: Place) -> None:
        """Give the go-ahead, if the session lives and the slot has the code that the session advertises."""
        membership, report = self._membership, place.report or {}
        if membership is None or membership.generation is None:
            return
        if place.process is None or place.life is not None or "catalogue" not in report:
            return
        if Catalogue.from_data(report["catalogue"]) != membership.catalogue:
            place.stop("its code differs from that of the other slots; restart this worker")
            return
        life, go = membership.new_life(place.number)
        membership.renewal.watch(life.id, Watched(place.process.pid, place.process.page, life.worker))
        place.begin(life, go.to_data())
        log.info("slot %d lives as %s", place.number, life.worker, extra=self._extra(life))

    def _bury(self, place: Place) -> None:
        assert place.process is not None  # noqa: S101  # it has just died
        if place.process.control in self._selector.get_map():
            self._selector.unregister(place.process.control)
        if place.life is not None and self._membership is not None:
            self._membership.renewal.unwatch(place.life.id)
        death = place.bury()
        if death.life is None:
            self._judge_stillborn(place, death)
            return
        level = logging.INFO if self._draining_until is not None else logging.WARNING
        extra = {**self._extra(death.life), "cause": death.cause}
        log.log(level, "slot %d has ended: %s", place.number, death.cause, extra=extra)
        life = death.life
        self._teller.tell(
            Abandon(
                life=life.id, queue=life.queue, worker=life.worker, cause=death.cause, charge=death.charge
            )
        )

    def _judge_stillborn(self, place: Place, death: Death) -> None:
        """A slot that never worked: at first that is the user's to mend, later it may pass."""
        said = (death.report or {}).get("error")
        reason = said or f"a slot ended while it loaded its modules: {death.cause}"
        # What it says itself is for the user to mend. A death may be bad luck, a few in a row are not.
        hopeless = said is not None or place.quick_deaths > STILLBIRTHS
        if self._membership is None and self._draining_until is None and hopeless:
            self._fail(reason, USAGE_EXIT)
        elif self._draining_until is None:
            log.error("slot %d cannot begin: %s", place.number, reason, extra={"session": self._session})

    # --- what the threads tell ---

    def _obey(self, event: Event) -> None:
        if not isinstance(event, LeaseGone | StopAsked) and (
            self._membership is None or event.nonce != self._membership.nonce
        ):
            return
        match event:
            case Registered(generation=generation):
                self._begin_generation(generation)
            case NotRegistered(reason=reason):
                self._judge_refusal(reason)
            case SessionGone():
                self._begin_generation(None)
                self._stop_all("its session had expired", lambda place: place.life is not None)
            case StopAsked(route, token):
                for place in self._places:
                    place.ask_to_stop(route, token, self._settings.grace.total_seconds())
            case LeaseGone(life, route):
                self._stop_all(
                    f"lost its lease on {route}",
                    lambda place: place.life is not None and place.life.id == life,
                )
            case _:
                assert_never(event)

    def _begin_generation(self, generation: int | None) -> None:
        if self._membership is not None:
            self._membership.generation, self._name_taken_until = generation, None
            for place in self._places:
                self._begin_life(place)

    def _judge_refusal(self, reason: str) -> None:
        """The name may be that of our own predecessor, killed a moment ago: its session lapses soon."""
        now = time.monotonic()
        if self._name_taken_until is None:
            log.warning("%s; waiting for one lease, should it have been killed", reason)
            waiting = self._settings.lease + self._settings.renewal
            self._name_taken_until = now + waiting.total_seconds()
        elif now > self._name_taken_until and not any(place.life for place in self._places):
            self._fail(reason, USAGE_EXIT)

    # --- the end ---

    def _has_finished(self) -> bool:
        return self._draining_until is not None and all(place.process is None for place in self._places)

    def _fail(self, reason: str, code: int) -> None:
        sys.stderr.write(f"Error: {reason}\n")
        self._exit_code = code
        self._draining_until = time.monotonic()

    def _advance_stop(self) -> None:
        if self._stop_signals.count and self._draining_until is None:
            self._begin_drain()
        if self._draining_until is None:
            return
        if self._stop_signals.count > 1:
            self._stop_all("stopped by its agent")
        elif time.monotonic() > self._draining_until:
            self._stop_all("stopped by its agent: drain budget over")

    def _begin_drain(self) -> None:
        log.info("draining; a second signal stops at once", extra={"session": self._session})
        self._draining_until = time.monotonic() + self._settings.drain.total_seconds()
        if self._membership is not None:
            self._membership.drain()
        for place in self._places:
            if place.process is not None and place.life is not None:
                place.process.page.request_drain()
        self._stop_all("stopped by its agent", lambda place: place.life is None)
        self._waker = Waker(self._store, {place.life.worker for place in self._places if place.life})

    def _stop_all(self, because: str, which: Callable[[Place], bool] = lambda _: True) -> None:
        for place in self._places:
            if which(place):
                place.stop(because)

    def _leave(self) -> None:
        """Also the way out of a bug: no process stays behind, and the store is told while it can be."""
        self._stop_all("stopped by its agent")
        for place in self._places:
            while place.process is not None and not place.process.has_died():
                time.sleep(_DRAIN_LOOK_SECONDS)
            if place.process is not None:
                self._bury(place)
        if self._waker is not None:
            self._waker.close()
        if self._membership is not None:
            self._membership.end()
        if not self._teller.finish(_FAREWELL_SECONDS):
            log.warning("the store did not hear that %s has gone; its leases lapse", self._session)
        self._selector.close()
        self._inbox.close()

    def _extra(self, life: Life) -> dict[str, str]:
        return {"session": self._session, "life": life.id}
