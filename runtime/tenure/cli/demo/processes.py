"""Processes as the demo starts, finds and kills them.

Everything it starts is in one process group, whose leader is a guard: a shell that waits for the end of a
pipe that only the demo holds. However the demo ends, the pipe ends with it and the guard kills the group.
Slots are in groups of their own; they end with their agent, which is in this one.
"""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from types import FrameType, TracebackType
from typing import Final, Self

_SLOT: Final = "tenure_workers.slot"
_GUARD: Final = "trap '' INT TERM HUP; read -r nothing; kill -9 0"
_HAS_PROC: Final = Path("/proc/self/stat").exists()
_POLL_SECONDS: Final = 0.01


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
        self, command: Sequence[str], *, environment: Mapping[str, str], folder: Path, log: Path
    ) -> subprocess.Popen[bytes]:
        """Start a process in the group; what it prints goes to its log."""
        with log.open("ab") as output:
            return subprocess.Popen(
                command,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                env=dict(environment),
                cwd=folder,
                process_group=self._guard.pid,
            )

    def kill(self) -> None:
        """Kill what is left of the group, the guard included."""
        os.close(self._lifeline)
        self._guard.wait()


@dataclass(frozen=True, slots=True)
class Member:
    """One process on stage."""

    name: str
    process: subprocess.Popen[bytes]

    @property
    def pid(self) -> int:
        return self.process.pid


def slots_by_agent() -> dict[int, list[int]]:
    """The pids of all slots on this machine, by the pid of their agent."""
    found: dict[int, list[int]] = {}
    for pid, parent, command in _listed():
        if _SLOT in command:
            found.setdefault(parent, []).append(pid)
    return found


def kill(pid: int) -> None:
    """Kill -9, if it is still there."""
    with contextlib.suppress(ProcessLookupError):
        os.kill(pid, signal.SIGKILL)


def is_alive(pid: int) -> bool:
    """Whether a process runs; a zombie does not."""
    if _HAS_PROC:
        try:
            return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] not in ("Z", "X")
        except OSError:
            return False
    return any(listed == pid for listed, _, _ in _listed())


def wait_until_gone(pids: Sequence[int], patience_seconds: float) -> list[int]:
    """Wait until these have ended; returns those that have not."""
    deadline = time.monotonic() + patience_seconds
    while left := [pid for pid in pids if is_alive(pid)]:
        if time.monotonic() > deadline:
            break
        time.sleep(_POLL_SECONDS)
    return left


def _listed() -> Iterator[tuple[int, int, str]]:
    """Every process: pid, parent, command line."""
    if _HAS_PROC:
        # Small images have no `ps`.
        for entry in Path("/proc").iterdir():
            if entry.name.isdigit():
                with contextlib.suppress(OSError):  # it has just ended
                    parent = (entry / "stat").read_text(errors="replace").rpartition(")")[2].split()[1]
                    command = (entry / "cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
                    yield int(entry.name), int(parent), command
        return
    listing = subprocess.run(
        ["/bin/ps", "-axo", "pid=,ppid=,stat=,command="], capture_output=True, text=True, check=True
    )
    for line in listing.stdout.splitlines():
        pid, parent, state, command = line.split(None, 3)
        if not state.startswith("Z"):
            yield int(pid), int(parent), command
