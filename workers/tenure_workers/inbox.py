"""What an agent's threads tell its main thread, which also waits for signals and slots."""

from __future__ import annotations

import contextlib
import socket
from dataclasses import dataclass
from queue import Empty, SimpleQueue
from typing import Protocol


@dataclass(frozen=True, slots=True)
class Registered:
    """The session lives under this generation."""

    nonce: str
    generation: int


@dataclass(frozen=True, slots=True)
class NotRegistered:
    """The store refuses the session: another agent has its name."""

    nonce: str
    reason: str


@dataclass(frozen=True, slots=True)
class SessionGone:
    """The store has ended the session: nothing its slots hold is theirs any more."""

    nonce: str


@dataclass(frozen=True, slots=True)
class LeaseGone:
    """A slot goes on as owner of a route that is somebody else's."""

    life: str
    route: str


@dataclass(frozen=True, slots=True)
class StopAsked:
    """What is held under this token is to stop: its execution is being ended."""

    route: str
    token: int


Event = Registered | NotRegistered | SessionGone | LeaseGone | StopAsked


class Listener(Protocol):
    """Whoever is told what an agent's threads find out."""

    def put(self, event: Event) -> None:
        """Called in the thread that has found it out; it must not take long."""


class Inbox:
    """A queue with a descriptor that can be selected. Signals are written to the same descriptor."""

    def __init__(self) -> None:
        self._events: SimpleQueue[Event] = SimpleQueue()
        self._reader, self._writer = socket.socketpair()
        self._reader.setblocking(False)
        self._writer.setblocking(False)

    def fileno(self) -> int:
        """Readable when there is something to take."""
        return self._reader.fileno()

    def wakeup_descriptor(self) -> int:
        """For `signal.set_wakeup_fd`."""
        return self._writer.fileno()

    def put(self, event: Event) -> None:
        """Leave an event and wake the main thread."""
        self._events.put(event)
        with contextlib.suppress(BlockingIOError):  # full: it wakes up anyway
            self._writer.send(b"\0")

    def take(self) -> list[Event]:
        """Everything left since the last time."""
        with contextlib.suppress(BlockingIOError):
            while self._reader.recv(4096):
                continue
        events: list[Event] = []
        with contextlib.suppress(Empty):
            while True:
                events.append(self._events.get_nowait())
        return events

    def close(self) -> None:
        """Give the descriptors back."""
        self._reader.close()
        self._writer.close()
