"""The data folder of an embedded server: what lies in it, and where its socket is.

    users.lock      shared by every user; the guard takes it alone to stop the server
    server.lock     held by the running server and its guard: one server per folder
    endpoint.json   where the socket is, and which folder said so
    server.log      what the server and its guard print
    server.pid      the server's process id while it runs
    appendonlydir   the data

The socket lies elsewhere, because a socket's path has a limit of about a hundred bytes and the data folder's
has none. Its folder is private, made once and then kept in `endpoint.json`, so clients of a server that was
killed find the next one at the same place.
"""

from __future__ import annotations

import json
import os
import stat
import tempfile
from pathlib import Path
from typing import Final

from tenure.errors import EmbeddedServerError

USERS_LOCK: Final = "users.lock"
SERVER_LOCK: Final = "server.lock"

_ENDPOINT: Final = "endpoint.json"
_LOG: Final = "server.log"
_LOG_LIMIT_BYTES: Final = 1024 * 1024
_LOG_TAIL_LINES: Final = 12
# sun_path is 104 bytes on macOS and 108 on Linux, with its closing zero.
_SOCKET_PATH_LIMIT_BYTES: Final = 103


class DataFolder:
    """One data folder, made if absent, with access for its owner only."""

    def __init__(self, path: Path) -> None:
        self.path = path.absolute()
        try:
            self.path.mkdir(mode=0o700, parents=True, exist_ok=True)
            ignore = self.path / ".gitignore"
            if not ignore.exists():
                ignore.write_text("*\n")
        except OSError as error:
            message = (
                f"the embedded server cannot keep its data in {self.path} ({error}); choose another folder"
            )
            raise EmbeddedServerError(message) from error

    @property
    def log(self) -> Path:
        return self.path / _LOG

    def socket(self) -> Path | None:
        """Where the server of this folder listens; None if none was ever started here."""
        try:
            endpoint = json.loads((self.path / _ENDPOINT).read_text())
            # A copy of the folder must not lead to the original's socket.
            return Path(endpoint["socket"]) if endpoint["folder"] == self._identity() else None
        except (FileNotFoundError, ValueError, TypeError, KeyError):
            return None

    def prepare_socket(self) -> Path:
        """A private place for the socket: the last one if it is still ours. Needs the server lock."""
        known = self.socket()
        if known is not None and _is_private_folder(known.parent):
            return known
        socket = _new_socket_folder() / "s"
        draft = self.path / f"{_ENDPOINT}.new"
        draft.write_text(json.dumps({"socket": str(socket), "folder": self._identity()}))
        draft.replace(self.path / _ENDPOINT)
        return socket

    def open_log(self) -> int:
        """Open the log for a new server, setting a long one aside. Needs the server lock."""
        if self.log.exists() and self.log.stat().st_size > _LOG_LIMIT_BYTES:
            self.log.replace(self.log.with_suffix(".log.1"))
        return os.open(self.log, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)

    def log_tail(self, since: int) -> str:
        """The last lines written after byte `since`."""
        with self.log.open("rb") as log:
            log.seek(since)
            lines = log.read().decode(errors="replace").splitlines()
        return "\n".join(lines[-_LOG_TAIL_LINES:])

    def _identity(self) -> str:
        status = self.path.stat()
        return f"{status.st_dev}:{status.st_ino}"


def _is_private_folder(path: Path) -> bool:
    """Whether `path` is, or now becomes, a folder that nobody else can write to."""
    try:
        path.mkdir(mode=0o700)
    except FileExistsError:
        status = path.lstat()
        return stat.S_ISDIR(status.st_mode) and status.st_uid == os.getuid() and not status.st_mode & 0o077
    except OSError:
        return False
    return True


def _new_socket_folder() -> Path:
    folder = Path(tempfile.mkdtemp(prefix="tenure-"))
    if len(os.fsencode(folder / "s")) <= _SOCKET_PATH_LIMIT_BYTES:
        return folder
    folder.rmdir()
    return Path(tempfile.mkdtemp(prefix="tenure-", dir="/tmp"))
