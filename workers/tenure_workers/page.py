"""Memory shared by an agent and one of its slots, so that neither waits for the other.

A slot shows what it holds before it acts on it, several times per task, while it may keep the GIL for minutes
or be killed at any instruction. So there are two copies and a counter: the slot writes the copy that is not
current and then moves the counter, an aligned 8-byte store. Whoever dies in the middle of a write leaves the
last complete value as the current one. A checksum catches what a weakly ordered processor, or a reader that
was overtaken twice, could tear.
"""

from __future__ import annotations

import mmap
import os
import struct
import sys
import tempfile
import threading
import time
import zlib
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import Final, Self

import msgpack

from tenure.engine.presence import Phase

# The first words of a page, 8 bytes each: the counter, whether to drain, the token to cancel. A view of words
# assigns them in one store each; `struct.pack_into` would fill them with zeros first.
_COUNTER: Final = 0
_DRAIN: Final = 1
_CANCEL: Final = 2
_HEAD: Final = struct.Struct("@II")
_COPY_BYTES: Final = 32 * 1024
_COPIES_AT: Final = 64
_SIZE: Final = _COPIES_AT + 2 * _COPY_BYTES
_PROGRESS_LIMIT: Final = 200
# A reader is overtaken only if the slot writes twice meanwhile; longer than this the page is at fault.
_READ_ATTEMPTS: Final = 50
_READ_PAUSE_SECONDS: Final = 0.0002


@dataclass(frozen=True, slots=True)
class Shown:
    """What a slot has shown last. `entry` names its running RQ job, as RQ's registry of started jobs does."""

    phase: Phase = Phase.IDLE
    leases: tuple[tuple[str, int, bool], ...] = ()
    progress: str = ""
    entry: str = ""
    #: When it began to hold these, by the monotonic clock, which all processes of a host share.
    since_seconds: float = 0.0
    #: When what it holds overruns its timeout, by the same clock; 0 if it has none.
    deadline_seconds: float = 0.0


class SlotPage:
    """One page. The slot's side implements `tenure.engine.presence.Presence`; its threads may share it."""

    def __init__(self, descriptor: int) -> None:
        self.descriptor = descriptor
        self._map = mmap.mmap(descriptor, _SIZE)
        self._words = memoryview(self._map).cast("Q")
        self._writing = threading.Lock()
        self._packer = msgpack.Packer()
        self._counter = self._words[_COUNTER]
        self._phase: str = Phase.IDLE.value
        self._leases: tuple[tuple[str, int, bool], ...] = ()
        self._progress = self._entry = ""
        self._since_seconds = self._deadline_seconds = 0.0
        self._last = Shown()

    @classmethod
    def create(cls) -> Self:
        """A fresh page that says idle; its descriptor is for the slot to inherit."""
        if sys.platform == "linux":
            descriptor = os.memfd_create("tenure-slot")
        else:
            with tempfile.TemporaryFile() as file:
                descriptor = os.dup(file.fileno())
        os.ftruncate(descriptor, _SIZE)
        page = cls(descriptor)
        page._write()
        return page

    @classmethod
    def attach(cls, descriptor: int) -> Self:
        """The page whose descriptor was inherited; processes that user code starts do not inherit it."""
        os.set_inheritable(descriptor, False)
        return cls(descriptor)

    # --- the slot's side ---

    def show(
        self, phase: Phase, leases: Sequence[tuple[str, int, bool]], *, timeout: timedelta | None = None
    ) -> None:
        """Publish the phase and the leases held, as (route, token, started), before acting on them."""
        with self._writing:
            self._deadline_seconds = time.monotonic() + timeout.total_seconds() if timeout else 0.0
            held = tuple(leases)
            if held != self._leases:  # progress belongs to what was held
                self._progress = ""
                self._since_seconds = time.monotonic()
            self._phase, self._leases = phase.value, held
            self._write()

    def show_progress(self, text: str) -> None:
        """Publish how far the task has come; a cause of death quotes it."""
        with self._writing:
            self._progress = text[:_PROGRESS_LIMIT]
            self._write()

    def show_entry(self, entry: str) -> None:
        """Publish which RQ job runs, for the agent to renew it on RQ's side. Empty when none does."""
        with self._writing:
            self._entry = entry
            self._write()

    def cancelled(self, token: int) -> bool:
        """Whether the agent was told to cancel what is held under this token."""
        return self._words[_CANCEL] == token

    def draining(self) -> bool:
        """Whether the agent wants the slot to stop taking work."""
        return self._words[_DRAIN] != 0

    def _write(self) -> None:
        packed: bytes = self._packer.pack(
            (
                self._phase,
                self._leases,
                self._progress,
                self._entry,
                self._since_seconds,
                self._deadline_seconds,
            )
        )
        if len(packed) > _COPY_BYTES - _HEAD.size:
            raise ValueError(f"{len(self._leases)} leases do not fit into the slot's page")
        following = self._counter + 1
        at = _COPIES_AT + (following & 1) * _COPY_BYTES
        head = _HEAD.pack(len(packed), zlib.crc32(packed))
        self._map[at : at + len(head) + len(packed)] = head + packed
        self._counter = self._words[_COUNTER] = following

    # --- the agent's side ---

    def read(self) -> Shown:
        """What the slot has shown last, also after its death."""
        for _ in range(_READ_ATTEMPTS):
            packed = self._read_copy()
            if packed is not None:
                phase, leases, *rest = msgpack.unpackb(packed)
                pairs = tuple((route, token, started) for route, token, started in leases)
                self._last = Shown(Phase(phase), pairs, *rest)
                return self._last
            time.sleep(_READ_PAUSE_SECONDS)
        return self._last

    def _read_copy(self) -> bytes | None:
        at = _COPIES_AT + (self._words[_COUNTER] & 1) * _COPY_BYTES
        length, checksum = _HEAD.unpack_from(self._map, at)
        # No value is empty; but nothing has the checksum of zeros.
        if not 0 < length <= _COPY_BYTES - _HEAD.size:
            return None
        packed = self._map[at + _HEAD.size : at + _HEAD.size + length]
        return packed if zlib.crc32(packed) == checksum else None

    def request_drain(self) -> None:
        """Ask the slot to stop taking work."""
        self._words[_DRAIN] = 1

    def request_cancel(self, token: int) -> None:
        """Ask the task that is held under this token to stop."""
        self._words[_CANCEL] = token

    def close(self) -> None:
        """Unmap. Whoever was given the descriptor has a mapping of its own."""
        self._words.release()
        self._map.close()
        os.close(self.descriptor)
