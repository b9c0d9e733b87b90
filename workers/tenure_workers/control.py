"""Control messages: a session's agent hears at once of what it is to stop.

They are hints. A lost one costs nothing but time, since every renewal tells the same.
"""

from __future__ import annotations

import logging
import threading
from typing import Final

from tenure.store.sessions import Sessions
from tenure_workers.inbox import Listener, StopAsked
from tenure_workers.renewal import STORE_TROUBLES

log = logging.getLogger(__name__)

_WAIT_SECONDS: Final = 2.0


class Control:
    """A thread that waits for the messages of one session and leaves them in the agent's inbox."""

    def __init__(self, *, sessions: Sessions, session: str, inbox: Listener) -> None:
        self._sessions = sessions
        self._session = session
        self._inbox = inbox
        self._closing = threading.Event()
        self._thread = threading.Thread(target=self._run, name="control", daemon=True)

    def start(self) -> None:
        """Begin to listen."""
        self._thread.start()

    def close(self) -> None:
        """Listen no more, after the wait that is under way."""
        self._closing.set()

    def _run(self) -> None:
        while not self._closing.is_set():
            try:
                asked = self._sessions.wait_for_control(self._session, seconds=_WAIT_SECONDS)
            except STORE_TROUBLES as error:
                if self._closing.is_set():
                    return
                log.info("control messages are not heard: %s", error, extra={"session": self._session})
                self._closing.wait(_WAIT_SECONDS)
                continue
            if asked is not None:
                self._inbox.put(StopAsked(*asked))
