"""A proxy that loses replies, as a network does: the server has done its part, the client does not know."""

from __future__ import annotations

import contextlib
import socket
import threading
from collections.abc import Iterator
from types import TracebackType
from typing import Final, Self

_CHUNK: Final = 65536


class LossyProxy:
    """Listens on TCP and forwards to the server's unix socket; `url` is what clients are given."""

    def __init__(self, server_socket: str) -> None:
        self._server_socket = server_socket
        self._listener = self._listen(0)
        self._sockets: list[socket.socket] = []
        self._to_lose = 0
        #: Replies to scripts that the server gave and no client got.
        self.lost = 0
        self.url = f"redis://127.0.0.1:{self._listener.getsockname()[1]}"

    def _listen(self, port: int) -> socket.socket:
        listener = socket.create_server(("127.0.0.1", port))
        threading.Thread(target=self._accept, args=(listener,), daemon=True).start()
        return listener

    def lose_replies(self, count: int) -> None:
        """Cut the connection instead of passing on the next `count` replies to scripts."""
        self._to_lose = count

    def _accept(self, listener: socket.socket) -> None:
        with contextlib.suppress(OSError):  # closed
            while True:
                client, _ = listener.accept()
                threading.Thread(target=self._serve, args=(client,), daemon=True).start()

    def _serve(self, client: socket.socket) -> None:
        server = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self._sockets += [client, server]
        with contextlib.suppress(OSError), client, server:  # one side has gone
            server.connect(self._server_socket)
            while request := client.recv(_CHUNK):
                server.sendall(request)
                reply = server.recv(_CHUNK)
                # Requests are smaller than a segment, and a client asks one thing at a time.
                if b"EVAL" in request and self._to_lose > 0:
                    self._to_lose -= 1
                    self.lost += 1
                    return
                client.sendall(reply)

    @contextlib.contextmanager
    def down(self) -> Iterator[None]:
        """Refuse every connection meanwhile."""
        port = self._listener.getsockname()[1]
        self.close()
        try:
            yield
        finally:
            self._listener = self._listen(port)

    def close(self) -> None:
        for one in [self._listener, *self._sockets]:
            with contextlib.suppress(OSError):  # closed by its thread
                one.shutdown(socket.SHUT_RDWR)
        self._listener.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()
