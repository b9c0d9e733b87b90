"""A server that a test may kill and start again on its data."""

from __future__ import annotations

import subprocess
import tempfile
from contextlib import closing
from pathlib import Path
from types import TracebackType
from typing import Self

import redis

from tenure.embedded.binary import server_binary
from tenure.store.connection import connect
from tests.waiting import wait_until


class OwnServer:
    def __init__(self) -> None:
        # A socket's path may not be longer than about a hundred characters.
        self._folder = tempfile.TemporaryDirectory(prefix="own-")
        self._socket = Path(self._folder.name, "s")
        self._process: subprocess.Popen[bytes] | None = None
        self.url = f"unix://{self._socket}"

    def start(self) -> None:
        arguments = {"port": "0", "unixsocket": str(self._socket), "dir": self._folder.name}
        durable = {"appendonly": "yes", "appendfsync": "always", "save": ""}
        options = [part for name, value in {**arguments, **durable}.items() for part in (f"--{name}", value)]
        self._process = subprocess.Popen([str(server_binary()), *options], stdout=subprocess.DEVNULL)
        wait_until(self._answers, 10, "the server answers")

    def kill(self) -> None:
        if self._process is not None:
            self._process.kill()
            self._process.wait()
            self._process = None

    def _answers(self) -> bool:
        with closing(connect(self.url)) as client:
            try:
                return bool(client.ping())
            except redis.ConnectionError:
                return False

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.kill()
        self._folder.cleanup()
