"""Why a slot died, as one line that a person can act on."""

from __future__ import annotations

import re
import signal
from collections.abc import Sequence
from pathlib import Path
from typing import Final

#: With this code a slot ends that may not act as owner any more (G16).
UNCONFIRMED_EXIT: Final = 70

_TAIL_LINES: Final = 3
_LINE_LIMIT: Final = 160


def cause_of_death(code: int, *, out_of_memory: bool, progress: str, tail: Sequence[str]) -> str:
    """Describe an end. `code` is that of `subprocess`: the exit code, or a signal's number below zero."""
    parts = [_how(code, out_of_memory=out_of_memory)]
    if progress:
        parts.append(f"last progress {progress}")
    if code and tail:
        parts.append("; ".join(_shortened(line) for line in _telling(tail)))
    return " — ".join(parts)


def _how(code: int, *, out_of_memory: bool) -> str:
    if code == -signal.SIGKILL and out_of_memory:
        return "killed for memory (oom_kill counter of its cgroup rose)"
    if code < 0:
        return f"killed by {_signal_name(-code)}"
    if code == UNCONFIRMED_EXIT:
        return f"exited with code {code} (a write was not confirmed)"
    return f"exited with code {code}"


def _signal_name(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:  # realtime signals have no names of their own
        return f"signal {number}"


def _telling(tail: Sequence[str]) -> Sequence[str]:
    """The last lines; of a dump by `faulthandler`, what happened and the innermost frame of where."""
    fatal = next((n for n, line in enumerate(tail) if line.startswith("Fatal Python error")), None)
    if fatal is None:
        return tail[-_TAIL_LINES:]
    current = next((n for n, line in enumerate(tail) if line.startswith("Current thread")), len(tail))
    return [tail[fatal], *tail[current + 1 : current + 2]]


def _shortened(line: str) -> str:
    text = " ".join(line.split())
    return text if len(text) <= _LINE_LIMIT else text[: _LINE_LIMIT - 1] + "…"


class MemoryKills:
    """Whether the kernel has killed for memory in the cgroup of a slot.

    The counter belongs to the cgroup, which other processes may share. So it is compared with what it was
    one to two looks before the death, not with what it was when the slot began.
    """

    def __init__(self, pid: int) -> None:
        self._pid = pid
        self._counters: tuple[Path, ...] = ()
        self._earlier = self._latest = 0

    def look(self) -> None:
        """Note the counter; call about once a second while the slot lives, which may change its cgroup."""
        counters = _counter_files(self._pid)
        if counters != self._counters:
            self._counters = counters
            self._earlier = self._latest = self._count()
        else:
            self._earlier, self._latest = self._latest, self._count()

    def has_risen(self) -> bool:
        """Whether the counter rose just before now; False where it cannot be read."""
        return self._count() > self._earlier

    def _count(self) -> int:
        for path in self._counters:
            try:
                found = re.search(r"^oom_kill (\d+)$", path.read_text(), re.MULTILINE)
            except OSError:  # not mounted here, or not ours to read
                continue
            if found:
                return int(found[1])
        return 0


def _counter_files(pid: int) -> tuple[Path, ...]:
    """Where the counter may be: under the path the kernel names, or at the root of a container's own view."""
    try:
        lines = Path(f"/proc/{pid}/cgroup").read_text().splitlines()
    except OSError:  # not Linux, or the process is gone
        return ()
    files: list[Path] = []
    for line in lines:
        number, controllers, path = line.split(":", 2)
        inside = path.lstrip("/")
        if "memory" in controllers.split(","):
            root = Path("/sys/fs/cgroup/memory")
            files += [root / inside / "memory.oom_control", root / "memory.oom_control"]
        elif number == "0":
            root = Path("/sys/fs/cgroup")
            files += [root / inside / "memory.events", root / "memory.events"]
    return tuple(files)
