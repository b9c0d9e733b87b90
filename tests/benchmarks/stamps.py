"""When task bodies began: one shared page of times, about a microsecond to write and no server involved.

The monotonic clock is the same for all processes of a machine.
"""

from __future__ import annotations

import mmap
import os
import struct
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

VARIABLE: Final = "TENURE_BENCHMARK_STAMPS"
_TIME: Final = struct.Struct("<d")
_CAPACITY: Final = 1 << 17
_POLL_SECONDS: Final = 0.001
_STALL_SECONDS: Final = 5.0


class Stamps:
    """The page, as every process maps it."""

    def __init__(self, path: Path) -> None:
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT, 0o600)
        try:
            os.ftruncate(descriptor, _CAPACITY * _TIME.size)
            self._map = mmap.mmap(descriptor, _CAPACITY * _TIME.size)
        finally:
            os.close(descriptor)
        self._free = 0

    def stamp(self, index: int) -> None:
        _TIME.pack_into(self._map, index * _TIME.size, time.monotonic())

    def at(self, index: int) -> float:
        """When it was stamped; 0 if it has not been."""
        seconds: float = _TIME.unpack_from(self._map, index * _TIME.size)[0]
        return seconds

    def take(self, count: int) -> range:
        """Indexes that nobody has used."""
        taken = range(self._free, self._free + count)
        self._free = taken.stop
        assert self._free <= _CAPACITY, "the page of stamps is too small for this benchmark"
        return taken

    def last_of(self, indexes: range) -> float:
        """Wait until all have been stamped; the time of the last one."""
        count, last = self.ran(indexes)
        assert count == len(indexes), (
            f"{count} of {len(indexes)} bodies ran, then none for {_STALL_SECONDS} s"
        )
        return last

    def ran(self, indexes: range) -> tuple[int, float]:
        """Wait until all have been stamped, or no more are: how many were, and the time of the last one."""
        reached, known, since = indexes.start, -1, time.monotonic()
        while reached < indexes.stop:
            if self.at(reached):
                reached, since = reached + 1, time.monotonic()
                continue
            if time.monotonic() - since > _STALL_SECONDS:
                # The first that is missing may be the only one that does not come.
                count = sum(1 for index in indexes if self.at(index))
                if count == known:
                    break
                known, since = count, time.monotonic()
            time.sleep(_POLL_SECONDS)
        return sum(1 for index in indexes if self.at(index)), max(map(self.at, indexes))


@contextmanager
def shared() -> Iterator[Stamps]:
    """A page in memory that child processes find by themselves."""
    memory = Path("/dev/shm")  # noqa: S108  # this is the shared memory
    path = (memory if memory.is_dir() else Path.cwd()) / f"tenure-stamps-{os.getpid()}"
    os.environ[VARIABLE] = str(path)
    try:
        yield Stamps(path)
    finally:
        del os.environ[VARIABLE]
        path.unlink()
