"""One slot as a child process: started in a group of its own, guarded, watched, and buried with its group.

Whatever a task starts stays in the slot's process group, and ends with the slot or with the agent:

- The agent kills the group of a dead slot *before* it reaps the slot, while the group's number cannot be
  anybody else's.
- Should the agent die, the kernel kills the slot (Linux), and a guard, a shell that waits on a pipe whose
  other end only the agent holds, kills the group.
"""

from __future__ import annotations

import contextlib
import os
import re
import signal
import socket
import subprocess
import sys
import threading
import time
from collections import deque
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import IO, Final, Self

from tenure_workers.death import MemoryKills, cause_of_death
from tenure_workers.page import SlotPage

_TAIL_BYTES: Final = 4096
_GROUP_PATIENCE_SECONDS: Final = 2.0
_TAIL_PATIENCE_SECONDS: Final = 0.2
_POLL_SECONDS: Final = 0.005

# The guard must outlive a signal sent to everything in the service's control group: only the pipe counts.
# Dash reads the group only in this form of `kill`, the one that POSIX has.
_GUARD: Final = "trap '' TERM INT HUP; read -r nothing; kill -s KILL -- -{group}"


class SlotProcess:
    """A slot that was started. Its methods are for the agent's main thread."""

    def __init__(self, process: subprocess.Popen[bytes], page: SlotPage, control: socket.socket) -> None:
        self.pid = process.pid
        self.page = page
        #: JSON lines both ways; the other end is the slot's.
        self.control = control
        self.started_at = time.monotonic()
        self._process = process
        self._guard, self._lifeline = _start_guard(process.pid)
        assert process.stderr is not None  # noqa: S101  # it is asked for below
        self._tail = StderrTail(process.stderr)
        self._memory = MemoryKills(process.pid)
        self._memory.look()

    @classmethod
    def spawn(
        cls,
        *,
        environment: Mapping[str, str],
        command: Sequence[str] | None = None,
        folder: Path | None = None,
    ) -> Self:
        """Start a slot. Call from the main thread: the kernel ends a slot with the *thread* that made it.

        `command` is called with three more arguments: the descriptors of page and control socket, and the
        agent's pid.
        """
        page = SlotPage.create()
        ours, theirs = socket.socketpair()
        arguments = [str(page.descriptor), str(theirs.fileno()), str(os.getpid())]
        with theirs:
            process = subprocess.Popen(
                [*(command or (sys.executable, "-m", "tenure_workers.slot")), *arguments],
                stdin=subprocess.DEVNULL,
                stderr=subprocess.PIPE,
                pass_fds=(page.descriptor, theirs.fileno()),
                start_new_session=True,
                env=dict(environment),
                cwd=folder,
            )
        ours.setblocking(False)
        return cls(process, page, ours)

    def has_died(self) -> bool:
        """Whether the slot has ended. It is not reaped by this, so its pid and group stay its own."""
        options = os.WEXITED | os.WNOWAIT | os.WNOHANG
        with contextlib.suppress(ChildProcessError):  # already reaped
            return os.waitid(os.P_PID, self.pid, options) is not None
        return True

    def is_stopped(self) -> bool:
        """Whether the kernel reports the slot stopped (SIGSTOP, a debugger): it must not keep its leases."""
        return process_state(self.pid) in ("T", "t")

    def look(self) -> None:
        """Note what only a living slot tells; call about once a second."""
        self._memory.look()

    def kill_group(self) -> None:
        """Kill the slot and everything in its process group."""
        with contextlib.suppress(ProcessLookupError, PermissionError):  # macOS refuses for a group of zombies
            os.killpg(self.pid, signal.SIGKILL)

    def bury(self) -> tuple[int, str]:
        """After its death: end its group, reap it, and return its exit code and the cause of its death."""
        out_of_memory = self._memory.has_risen()
        shown = self.page.read()
        self.kill_group()
        # Everything is doomed now. The guard must go before the reaping, which sets the group's number free.
        self._guard.kill()
        self._guard.wait()
        os.close(self._lifeline)
        code = self._process.wait()
        _wait_until_empty(self.pid)
        tail = self._tail.lines(shown.since_seconds, _TAIL_PATIENCE_SECONDS)
        self.control.close()
        self.page.close()
        return code, cause_of_death(code, out_of_memory=out_of_memory, progress=shown.progress, tail=tail)


class StderrTail:
    """Passes a slot's stderr on, line by line, and keeps its end."""

    def __init__(self, pipe: IO[bytes]) -> None:
        self._pipe = pipe
        self._kept: deque[tuple[float, bytes]] = deque()
        self._bytes = 0
        self._thread = threading.Thread(target=self._drain, name="slot-stderr", daemon=True)
        self._thread.start()

    def lines(self, since_seconds: float, patience_seconds: float) -> list[str]:
        """The last lines since a moment of the monotonic clock: earlier ones belong to earlier work.

        Waits a little for the end; what escaped the group may hold the pipe for ever.
        """
        self._thread.join(patience_seconds)
        kept = [line for at, line in list(self._kept) if at >= since_seconds]
        text = b"".join(kept)[-_TAIL_BYTES:].decode(errors="replace")
        return [line for line in text.splitlines() if line.strip()]

    def _drain(self) -> None:
        with self._pipe:
            for line in iter(lambda: self._pipe.readline(_TAIL_BYTES), b""):
                self._kept.append((time.monotonic(), line))
                self._bytes += len(line)
                while self._bytes - len(self._kept[0][1]) >= _TAIL_BYTES:
                    self._bytes -= len(self._kept.popleft()[1])
                # Whoever reads the agent's stderr may be gone; the slot must not block because of that.
                with contextlib.suppress(OSError, ValueError):
                    sys.stderr.buffer.write(line)
                    sys.stderr.buffer.flush()


def process_state(pid: int) -> str | None:
    """The kernel's letter for a process (R, S, D, T, t, Z, ...), or None where that cannot be read."""
    return _state_and_group(pid)[0]


def _state_and_group(pid: int | str) -> tuple[str | None, int | None]:
    try:
        text = Path(f"/proc/{pid}/stat").read_text(errors="replace")
    except OSError:  # gone, or not Linux
        return None, None
    state, _parent, group = text.rpartition(")")[2].split()[:3]
    return state, int(group)


def _start_guard(group: int) -> tuple[subprocess.Popen[bytes], int]:
    """Start the guard of a group; returns it and the descriptor whose closing sets it off."""
    waiting, lifeline = os.pipe()
    try:
        guard = subprocess.Popen(
            ["/bin/sh", "-c", _GUARD.format(group=group)],
            stdin=waiting,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
            cwd="/",
        )
    finally:
        os.close(waiting)
    return guard, lifeline


def _wait_until_empty(group: int) -> None:
    """Wait until nothing of a killed group is left; bounded, as the kernel may hold a process in a read."""
    deadline = time.monotonic() + _GROUP_PATIENCE_SECONDS
    while time.monotonic() < deadline:
        try:
            os.killpg(group, 0)
        except (ProcessLookupError, PermissionError):
            return
        if not _has_living_members(group):
            return
        time.sleep(_POLL_SECONDS)


def _has_living_members(group: int) -> bool:
    """Zombies do not count: in a container nobody may ever reap them."""
    if not Path("/proc/self/stat").exists():
        return True
    for entry in os.listdir("/proc"):  # noqa: PTH208  # names are all that is needed
        if re.fullmatch(r"\d+", entry):
            state, of_group = _state_and_group(entry)
            if of_group == group and state not in ("Z", "X"):
                return True
    return False
