"""A real server that a test may kill and start again on its append-only file."""

from __future__ import annotations

import signal
import subprocess
import time
from pathlib import Path
from types import TracebackType
from typing import Self

import redis

from tenure.embedded.binary import server_binary
from tenure.store.connection import connect
from tests.waiting import wait_until


class RestartableServer:
    """Listens on a unix socket in `folder`, which must have a short path."""

    def __init__(self, folder: Path, *options: str) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self._folder = folder
        self._options = options
        self._socket = Path("/tmp") / f"tenure-{folder.stat().st_ino}.sock"  # noqa: S108  # a socket path is short
        self._process: subprocess.Popen[bytes] | None = None
        self.url = f"unix://{self._socket}"

    def start(self) -> None:
        """Start it and wait until it answers."""
        self._process = subprocess.Popen(
            [
                str(server_binary()),
                *("--port", "0", "--unixsocket", str(self._socket), "--dir", str(self._folder)),
                *("--appendonly", "yes", "--save", "", "--maxmemory-policy", "noeviction"),
                *self._options,
            ],
            stdout=subprocess.DEVNULL,
        )
        client = connect(self.url)
        wait_until(lambda: _answers(client), 20, "the server answers")
        client.close()

    def kill(self) -> None:
        """Kill it as a crash would."""
        assert self._process is not None
        self._process.kill()
        self._process.wait()
        self._down_since = time.monotonic()

    def hang(self, seconds: float) -> None:
        """Answer nobody for so long, as a stopped process or a network does: connections stay open."""
        assert self._process is not None
        self._process.send_signal(signal.SIGSTOP)
        time.sleep(seconds)
        self._process.send_signal(signal.SIGCONT)

    def wait_down(self, seconds: float) -> None:
        """Leave it down for at least this long: the outage itself is what the test is about."""
        time.sleep(max(0.0, self._down_since + seconds - time.monotonic()))

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._process is not None and self._process.poll() is None:
            self.kill()
        self._socket.unlink(missing_ok=True)


def _answers(client: redis.Redis) -> bool:
    try:
        return bool(client.ping())
    except redis.ConnectionError:
        return False
