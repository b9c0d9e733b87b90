"""The processes of `tenure dev`: started in its group, followed line by line, asked to end."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final

from tenure.cli.dev.lines import Lines
from tenure.cli.processes import Group

COMMAND: Final = (sys.executable, "-m", "tenure.cli")

#: One that ends sooner than this would do so again.
_SETTLED_SECONDS: Final = 3.0


class Service:
    """One process that is started, and started again."""

    def __init__(
        self,
        name: str,
        arguments: Sequence[str],
        *,
        group: Group,
        lines: Lines,
        environment: Mapping[str, str],
    ) -> None:
        self.name = name
        self._command = [*COMMAND, *arguments]
        self._group = group
        self._lines = lines
        self._environment = environment
        self._process: subprocess.Popen[bytes] | None = None
        self._started_at = 0.0

    def start(self) -> None:
        """Start it; what it prints is shown from now on."""
        self._process = self._group.start(
            self._command, environment=self._environment, folder=Path.cwd(), output=subprocess.PIPE
        )
        self._started_at = time.monotonic()
        assert self._process.stdout is not None  # noqa: S101  # it is asked for above
        self._lines.follow(self.name, self._process.stdout)

    @property
    def is_running(self) -> bool:
        """Whether it was started and has not ended."""
        return self._process is not None and self._process.poll() is None

    def ended(self) -> int | None:
        """The exit code of one that has ended without being asked to; told once."""
        if self._process is None:
            return None
        code = self._process.poll()
        if code is not None:
            self._process = None
        return code

    def had_settled(self) -> bool:
        """Whether it ran for a while, so that another start may be worth it."""
        return time.monotonic() - self._started_at > _SETTLED_SECONDS

    def ask_to_end(self) -> None:
        """Send SIGTERM."""
        if self._process is not None:
            self._process.terminate()

    def wait(self, patience_seconds: float) -> bool:
        """Wait until it has ended; says whether it has."""
        if self._process is None:
            return True
        try:
            self._process.wait(max(0.0, patience_seconds))
        except subprocess.TimeoutExpired:
            return False
        self._process = None
        return True

    def stop(self, patience_seconds: float) -> None:
        """Ask it to end, and kill it if it does not."""
        self.ask_to_end()
        if not self.wait(patience_seconds) and self._process is not None:
            self._lines.say("dev", f"{self.name} does not end, and is killed")
            self._process.kill()
            self._process.wait()
            self._process = None


def environment_of(url: str, namespace: str, **settings: str) -> dict[str, str]:
    """What every process is told: where to work, to print at once, and to read the sources anew.

    Compiled files tell sources apart by seconds and size, which is too little for one who types.
    """
    told = {"TENURE_REDIS_URL": url, "TENURE_NAMESPACE": namespace}
    python = {"PYTHONUNBUFFERED": "1", "PYTHONDONTWRITEBYTECODE": "1"}
    return {**settings, **os.environ, **told, **python}
