"""Processes that a command runs for as long as it runs itself, and what ends it.

Everything it starts is in one process group, whose leader is a guard: a shell that waits for the end of a
pipe that only the command holds. However the command ends, the pipe ends with it and the guard kills the
group. Slots are in groups of their own; they end with their agent, which is in this one.
"""

from __future__ import annotations

import os
import signal
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from types import FrameType, TracebackType
from typing import IO, Final, Self

_GUARD: Final = "trap '' INT TERM HUP; read -r nothing; kill -9 0"


class Interrupted(BaseException):
    """Ctrl-C or SIGTERM. Not an Exception, so that nothing on its way takes it for a failure."""

    def __init__(self, signal_number: int) -> None:
        super().__init__(signal.Signals(signal_number).name)
        self.exit_code = 128 + signal_number


class Interruptions:
    """Raises `Interrupted` in the main thread, but never while something is held together by `held`."""

    def __init__(self) -> None:
        self._held = 0
        self._came: int | None = None
        #: How many came: whoever sends a second one does not want to wait.
        self.count = 0
        self._before = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}

    def __enter__(self) -> Self:
        for number in self._before:
            signal.signal(number, self._handle)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for number, handler in self._before.items():
            signal.signal(number, handler)

    @contextmanager
    def held(self) -> Iterator[None]:
        """Put interruptions off until this is left."""
        self._held += 1
        try:
            yield
        finally:
            self._held -= 1
        if self._came is not None and not self._held:
            raise Interrupted(self._came)

    def ignore(self) -> None:
        """From here on everything is being ended anyway."""
        self._held += 1

    def _handle(self, number: int, _frame: FrameType | None) -> None:
        first = self._came is None
        self.count += 1
        self._came = number
        if first and not self._held:
            raise Interrupted(number)


class Group:
    """A process group that cannot outlive this process."""

    def __init__(self) -> None:
        reading, self._lifeline = os.pipe()
        try:
            self._guard = subprocess.Popen(
                ["/bin/sh", "-c", _GUARD],
                stdin=reading,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                process_group=0,
                cwd="/",
            )
        finally:
            os.close(reading)

    def start(
        self, command: Sequence[str], *, environment: Mapping[str, str], folder: Path, output: IO[bytes] | int
    ) -> subprocess.Popen[bytes]:
        """Start a process in the group; what it prints, also as errors, goes to `output`."""
        return subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            env=dict(environment),
            cwd=folder,
            process_group=self._guard.pid,
        )

    def kill(self) -> None:
        """Kill what is left of the group, the guard included."""
        os.close(self._lifeline)
        self._guard.wait()
