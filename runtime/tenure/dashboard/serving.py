"""Serving the dashboard until SIGTERM or Ctrl-C, with the server that comes with Flask.

Werkzeug's threaded server is meant for a few people who trust each other, which is what a dashboard on a
loopback address has. It writes no access log unless asked.
"""

from __future__ import annotations

import logging
import signal
import socket
import threading
from collections.abc import Callable

from flask import Flask
from werkzeug.serving import WSGIRequestHandler, make_server

log = logging.getLogger(__name__)

_STOP = (signal.SIGTERM, signal.SIGINT)


class _Handler(WSGIRequestHandler):
    """One request, logged without colours."""

    def log_request(self, code: int | str = "-", size: int | str = "-") -> None:  # noqa: ARG002  # werkzeug's
        """Log it."""
        log.info("%s %s %s", self.command, self.path, getattr(code, "value", code))


def serve(app: Flask, *, bind: str, port: int, on_ready: Callable[[str], None]) -> None:
    """Serve until SIGTERM or SIGINT, for the main thread only. `on_ready` is told the address.

    Raises:
        OSError: the address cannot be had.
    """
    family = socket.AF_INET6 if ":" in bind else socket.AF_INET
    # Waited for, not handled: nothing is raised in the middle of a request. Threads inherit the mask.
    signal.pthread_sigmask(signal.SIG_BLOCK, _STOP)
    with socket.create_server((bind, port), family=family) as listening:
        server = make_server(bind, port, app, threaded=True, request_handler=_Handler, fd=listening.fileno())
        loop = threading.Thread(target=server.serve_forever, args=(0.1,), name="dashboard")
        loop.start()
        host = f"[{bind}]" if ":" in bind else bind
        on_ready(f"http://{host}:{server.port}/")
        signal.sigwait(_STOP)
        server.shutdown()
        loop.join()
