"""Processes as the demo finds, watches and kills them: slots by their agent, since they end with it."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

_SLOT: Final = "tenure_workers.slot"
_HAS_PROC: Final = Path("/proc/self/stat").exists()
_POLL_SECONDS: Final = 0.01


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
