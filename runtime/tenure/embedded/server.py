"""Starting, joining and leaving the embedded server of a folder.

Whoever comes first starts the server, whoever comes later joins it, and it stops when the last one has left
or died. Two locks of the kernel decide all of this, so that no crash can leave a wrong count behind:

- A user holds `users.lock` shared *before* it looks for a server. From then on a server that runs will not
  be stopped under it; while one is being stopped the lock cannot be had, and the user waits.
- The server inherits `server.lock`. Whoever gets it knows that no server runs on the folder and may start
  one. Two servers on one folder would both run, and lose acknowledged writes (seen with Valkey 9.1).
"""

from __future__ import annotations

import fcntl
import os
import socket
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from types import TracebackType
from typing import Final, Self
from urllib.parse import quote

from tenure.embedded import guard
from tenure.embedded.binary import server_binary
from tenure.embedded.folder import SERVER_LOCK, USERS_LOCK, DataFolder
from tenure.errors import EmbeddedServerError

PATIENCE_SECONDS: Final = 15.0
_POLL_SECONDS: Final = 0.005
_PING_TIMEOUT_SECONDS: Final = 1.0


class EmbeddedServer:
    """One user's share in the server of a folder.

    Each process attaches for itself. A child that was forked shares its parent's attachment and keeps the
    server alive; a program that was executed does not inherit it.
    """

    def __init__(self, *, folder: Path, socket_path: Path, users_lock: int) -> None:
        """For `attach` alone."""
        self.folder = folder
        self.socket_path = socket_path
        self._users_lock: int | None = users_lock

    @classmethod
    def attach(
        cls, folder: Path, *, patience_seconds: float = PATIENCE_SECONDS, extra_args: Sequence[str] = ()
    ) -> Self:
        """Start the server of `folder`, or join it if it runs already.

        `extra_args` are added to the server's command line, should this call be the one that starts it.
        Raises EmbeddedServerError if no server answers within `patience_seconds`, or if it ends at once.
        """
        data = DataFolder(folder)
        search = _Search(data, deadline=time.monotonic() + patience_seconds, extra_args=extra_args)
        try:
            users_lock = search.share_users_lock()
            try:
                socket_path = search.find_or_start()
            except BaseException:
                os.close(users_lock)
                raise
        except OSError as error:
            message = f"the embedded server of {data.path} can neither be started nor joined: {error}"
            raise EmbeddedServerError(message) from error
        return cls(folder=data.path, socket_path=socket_path, users_lock=users_lock)

    @property
    def url(self) -> str:
        """The server's address in the form every Redis client reads."""
        return f"unix://{quote(str(self.socket_path))}"

    def revive(self) -> None:
        """Start the server again if it was killed, or join whoever has; clients then reconnect where it was.

        Raises EmbeddedServerError if that cannot be done.
        """
        data = DataFolder(self.folder)
        search = _Search(data, deadline=time.monotonic() + PATIENCE_SECONDS, extra_args=())
        try:
            search.find_or_start()
        except OSError as error:
            raise EmbeddedServerError(
                f"the embedded server of {data.path} cannot be revived: {error}"
            ) from error

    def close(self) -> None:
        """Give up the share. The server stops shortly after its last user."""
        if self._users_lock is not None:
            os.close(self._users_lock)
            self._users_lock = None

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


class _Search:
    """One attempt to get at a running server before a deadline."""

    def __init__(self, data: DataFolder, *, deadline: float, extra_args: Sequence[str]) -> None:
        self._data = data
        self._deadline = deadline
        self._extra_args = extra_args

    def share_users_lock(self) -> int:
        """Become a user. The lock is refused only while a server without users is being stopped."""
        while True:
            users_lock = _try_lock(self._data.path / USERS_LOCK, fcntl.LOCK_SH)
            if users_lock is not None:
                return users_lock
            self._wait_or_give_up("does not stop")

    def find_or_start(self) -> Path:
        """The socket of a server that answers. Needs the users lock."""
        started_at_byte: int | None = None
        while True:
            server_lock = _try_lock(self._data.path / SERVER_LOCK, fcntl.LOCK_EX)
            if server_lock is None:
                socket_path = self._data.socket()
                if socket_path is not None and self._answers(socket_path):
                    return socket_path
                self._wait_or_give_up("does not answer")
                continue
            try:
                if started_at_byte is not None:
                    raise self._ended_at_once(started_at_byte)
                started_at_byte = self._spawn(server_lock)
            finally:
                os.close(server_lock)

    def _spawn(self, server_lock: int) -> int:
        """Start the guard, and with it the server; the log's length at that moment."""
        binary = server_binary()
        socket_path = self._data.prepare_socket()
        log = self._data.open_log()
        try:
            log_length = os.fstat(log).st_size
            command = [str(binary), *_server_arguments(socket_path), *self._extra_args]
            subprocess.run(
                [sys.executable, "-I", "-S", guard.__file__, str(server_lock), str(socket_path), *command],
                cwd=self._data.path,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                pass_fds=(server_lock,),
                # Ctrl-C in the starter's terminal is not meant for a server that others share.
                start_new_session=True,
                check=True,
            )
        except (OSError, subprocess.CalledProcessError) as error:
            raise EmbeddedServerError(f"the embedded server cannot be started: {error}") from error
        finally:
            os.close(log)
        return log_length

    def _answers(self, socket_path: Path) -> bool:
        reply = _ping(socket_path)
        if reply.startswith(b"-LOADING"):
            # It reads its data, which takes as long as there is data.
            self._deadline = max(self._deadline, time.monotonic() + PATIENCE_SECONDS)
        return reply.startswith(b"+PONG")

    def _wait_or_give_up(self, complaint: str) -> None:
        if time.monotonic() > self._deadline:
            raise EmbeddedServerError(
                f"the embedded server of {self._data.path} {complaint}: end the process named in its "
                f"server.pid and try again; its log is {self._data.log}"
            )
        time.sleep(_POLL_SECONDS)

    def _ended_at_once(self, started_at_byte: int) -> EmbeddedServerError:
        return EmbeddedServerError(
            f"the embedded server of {self._data.path} ended while it started; "
            f"its log ({self._data.log}) ends with:\n{self._data.log_tail(started_at_byte)}"
        )


def _server_arguments(socket_path: Path) -> list[str]:
    """Everything is kept, nothing is evicted, and only the owner gets in.

    `everysec` loses nothing when the server is killed and about a second when the machine is.
    """
    options = {
        "port": "0",
        "unixsocket": str(socket_path),
        "unixsocketperm": "700",
        "dir": ".",
        "pidfile": "server.pid",
        "daemonize": "no",
        "loglevel": "notice",
        "appendonly": "yes",
        "appendfsync": "everysec",
        "save": "",
        "shutdown-on-sigterm": "nosave",
        "maxmemory-policy": "noeviction",
    }
    return [part for name, value in options.items() for part in (f"--{name}", value)]


def _try_lock(path: Path, kind: int) -> int | None:
    """The descriptor that holds the lock; None if others hold it."""
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT, 0o600)
    try:
        fcntl.flock(descriptor, kind | fcntl.LOCK_NB)
    except BlockingIOError:
        os.close(descriptor)
        return None
    except BaseException:
        os.close(descriptor)
        raise
    return descriptor


def _ping(socket_path: Path) -> bytes:
    """The server's answer to PING; empty if there is none."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as connection:
        connection.settimeout(_PING_TIMEOUT_SECONDS)
        try:
            connection.connect(str(socket_path))
            connection.sendall(b"PING\r\n")
            return connection.recv(64)
        except OSError:
            return b""
