"""Where a session stands, as its threads find out, for the thread that works under it."""

from __future__ import annotations

import logging
import threading
from datetime import timedelta
from typing import assert_never

from tenure.errors import InvalidInput, StoreUnreachable
from tenure_workers.inbox import Event, LeaseGone, NotRegistered, Registered, SessionGone, StopAsked
from tenure_workers.page import SlotPage

log = logging.getLogger(__name__)


class Standing:
    """Hears what an agent would be told, and passes on to the slot's page what the slot is to know.

    An agent stops a slot that must not go on; here nobody can, so it is asked.
    """

    def __init__(self, session: str) -> None:
        self._session = session
        self._changed = threading.Condition()
        #: The generation of the session; None while the store knows no such session.
        self.known: int | None = None
        self._refusal: str | None = None
        self._page: SlotPage | None = None

    def put(self, event: Event) -> None:
        """Take note of an event."""
        with self._changed:
            match event:
                case Registered(generation=generation):
                    self.known, self._refusal = generation, None
                case NotRegistered(reason=reason):
                    self._refusal = reason
                case SessionGone():
                    self.known = None
                    self._drain()
                case StopAsked(route, token):
                    self._ask_to_stop(route, token)
                case LeaseGone(route=route):
                    self._ask_to_stop(route)
                case _:
                    assert_never(event)
            self._changed.notify_all()

    def generation(self, patience: timedelta) -> int:
        """The generation of the session; waits for it to be registered.

        Raises:
            InvalidInput: the store refuses it, another worker has its name.
            StoreUnreachable: it was not registered within `patience`.
        """
        with self._changed:
            self._changed.wait_for(
                lambda: self.known is not None or self._refusal is not None, patience.total_seconds()
            )
            if self.known is not None:
                return self.known
            if self._refusal is not None:
                raise InvalidInput(self._refusal)
        raise StoreUnreachable(
            f"session {self._session} could not be registered within {patience.total_seconds():g} s; "
            "try again when the server answers"
        )

    def watch(self, page: SlotPage | None) -> None:
        """Pass on to this page from now on; None before the page is closed."""
        with self._changed:
            self._page = page

    def drain(self) -> None:
        """Ask the slot to take no more work."""
        with self._changed:
            self._drain()

    def _drain(self) -> None:
        if self._page is not None:
            self._page.request_drain()

    def _ask_to_stop(self, route: str, token: int | None = None) -> None:
        """Ask what is held on this route to stop, whatever its token if none is given."""
        if self._page is None:
            return
        for shown, held, _ in self._page.read().leases:
            if shown == route and token in (None, held) and not self._page.cancelled(held):
                log.info("asked %s to stop", route, extra={"session": self._session, "token": held})
                self._page.request_cancel(held)
