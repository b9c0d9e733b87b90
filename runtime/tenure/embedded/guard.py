"""The guard of an embedded server: starts it, and stops it with its last user.

Run as a script, away from the process that starts it, so that it outlives that process. Every user holds
`users.lock` shared for as long as it lives; the kernel lets go of it however the user ends. The guard asks
for the same lock alone: it gets it when nobody is left, and as it keeps it to the end, nobody can join a
server that is about to stop. The starter holds its share before the guard exists, so no moment is unguarded.

Needs only the standard library: it is started without site-packages, which keeps it quick and small.

    guard.py SERVER_LOCK_DESCRIPTOR SOCKET SERVER [ARGUMENT...]

The working folder is the data folder.
"""

from __future__ import annotations

import contextlib
import ctypes
import fcntl
import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path
from types import FrameType

# A server that writes its last data to a slow disk needs a while; a hung one must not stay for ever.
_STOP_PATIENCE_SECONDS = 30.0
_PR_SET_PDEATHSIG = 1


def main(server_lock: int, socket: Path, command: list[str]) -> None:
    """Run the server until it ends, then remove its socket and its folder."""
    server = subprocess.Popen(
        command,
        stdin=subprocess.DEVNULL,
        # The server keeps the lock on the folder even if this process is killed.
        pass_fds=(server_lock,),
        preexec_fn=_end_with_guard,  # noqa: PLW1509 -- no other thread runs yet
    )

    def stop(_signal: int, _frame: FrameType | None) -> None:
        server.terminate()

    signal.signal(signal.SIGTERM, stop)
    threading.Thread(target=_stop_after_last_user, args=(server,), daemon=True).start()
    server.wait()
    # Our copy of the server lock is still held, so no other server listens here yet.
    with contextlib.suppress(OSError):  # somebody cleaned up the temporary folder
        socket.unlink(missing_ok=True)
        socket.parent.rmdir()


def _stop_after_last_user(server: subprocess.Popen[bytes]) -> None:
    users = os.open("users.lock", os.O_RDWR | os.O_CREAT, 0o600)
    fcntl.flock(users, fcntl.LOCK_EX)
    server.terminate()
    time.sleep(_STOP_PATIENCE_SECONDS)
    server.kill()


def _end_with_guard() -> None:
    """Without a guard a server would never stop, so it ends with it where the kernel can see to that."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGTERM)


if __name__ == "__main__":
    # The starter waits for this first process only; the second has no parent that would have to reap it.
    if os.fork() == 0:
        main(int(sys.argv[1]), Path(sys.argv[2]), sys.argv[3:])
