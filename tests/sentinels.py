"""A primary, its replica and a real Sentinel that watches them, on ports of the loopback."""

from __future__ import annotations

import signal
import socket
import subprocess
from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType
from typing import Any, Final, Self

import redis

from tenure.embedded.binary import server_binary
from tests.waiting import wait_until

SERVICE: Final = "tests"


@dataclass
class Node:
    """One process of the server program."""

    folder: Path
    port: int
    configuration: str
    sentinel: bool = False
    _process: subprocess.Popen[bytes] | None = field(default=None, init=False)

    def start(self) -> None:
        """Start it and wait until it answers."""
        self.folder.mkdir(exist_ok=True)
        path = self.folder / "configuration"
        if not path.exists():  # a Sentinel, and whoever was demoted, rewrite theirs
            path.write_text(f"bind 127.0.0.1\nport {self.port}\ndir {self.folder}\n{self.configuration}\n")
        words = [str(server_binary()), str(path), *(["--sentinel"] if self.sentinel else [])]
        with (self.folder / "log").open("ab") as log:
            self._process = subprocess.Popen(words, stdout=log, stderr=log)
        wait_until(self._answers, 20, f"the node on port {self.port} answers")

    def kill(self) -> None:
        """Kill it as a crash would."""
        if self._process is not None:
            self._process.kill()
            self._process.wait()
            self._process = None

    def pause(self) -> None:
        """Stop its process, which neither answers nor reads from now on."""
        assert self._process is not None
        self._process.send_signal(signal.SIGSTOP)

    def resume(self) -> None:
        """Let it go on."""
        assert self._process is not None
        self._process.send_signal(signal.SIGCONT)

    @contextmanager
    def asking(self) -> Iterator[Any]:
        """A client of this very node. Untyped: its replies are text here."""
        with closing(redis.Redis("127.0.0.1", self.port, decode_responses=True)) as client:
            yield client

    def _answers(self) -> bool:
        try:
            with self.asking() as client:
                return bool(client.ping())
        except redis.ConnectionError:
            return False


class Watched:
    """Start it with `with`; `url` is what clients are given."""

    def __init__(self, folder: Path, *, down_after_ms: int = 500) -> None:
        one, other, watcher = _free_ports(3)
        # A replica need not wait for others that may want the same copy.
        kept = "appendonly yes\nsave ''\nmaxmemory-policy noeviction\nrepl-diskless-sync-delay 0"
        self.primary = Node(folder / "one", one, kept)
        self.replica = Node(folder / "other", other, f"{kept}\nreplicaof 127.0.0.1 {one}")
        self.sentinel = Node(
            folder / "sentinel",
            watcher,
            f"sentinel monitor {SERVICE} 127.0.0.1 {one} 1\n"
            f"sentinel down-after-milliseconds {SERVICE} {down_after_ms}\n"
            f"sentinel failover-timeout {SERVICE} 3000",
            sentinel=True,
        )
        self.url = f"sentinel://127.0.0.1:{watcher}/{SERVICE}"

    def is_replicating(self) -> bool:
        """Whether the replica follows the primary, and the Sentinel knows of it."""
        with self.replica.asking() as replica, self.sentinel.asking() as sentinel:
            follows = replica.info("replication").get("master_link_status") == "up"
            return follows and len(sentinel.sentinel_slaves(SERVICE)) == 1

    def stop_replicating(self) -> None:
        """Nothing that is written from now on reaches the replica, which is paused and must be resumed."""
        self.replica.pause()
        with self.primary.asking() as primary:
            primary.client_kill_filter(_type="replica")

    def is_cut_off(self) -> bool:
        """Whether the replica has noticed that its primary is gone, and so has taken in all that it gets."""
        with self.replica.asking() as replica:
            return bool(replica.info("replication").get("master_link_status") != "up")

    def __enter__(self) -> Self:
        try:
            for node in (self.primary, self.replica, self.sentinel):
                node.start()
            wait_until(self.is_replicating, 20, "the replica follows, and the Sentinel knows")
        except BaseException:
            self.__exit__(None, None, None)
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for node in (self.sentinel, self.replica, self.primary):
            node.kill()


def _free_ports(count: int) -> list[int]:
    listeners = [socket.create_server(("127.0.0.1", 0)) for _ in range(count)]
    ports = [listener.getsockname()[1] for listener in listeners]
    for listener in listeners:
        listener.close()
    return ports
