"""Provisioners that tests run: commands made of a few lines of shell, and a web server in a thread."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from types import TracebackType
from typing import Any, Self


@dataclass
class Script:
    """A command in a folder of its own; `told` is what it has been given."""

    folder: Path
    lines: str = ""

    def __post_init__(self) -> None:
        self.folder.mkdir(parents=True, exist_ok=True)
        self.path = self.folder / "provision"
        # Appending what it was told is one write, so that runs at one time do not mix.
        body = f'#!/bin/sh\ncd "{self.folder}"\ncat >> told\n{self.lines}\n'
        self.path.write_text(body)
        self.path.chmod(0o755)

    @property
    def command(self) -> str:
        return str(self.path)

    @property
    def raw(self) -> str:
        told = self.folder / "told"
        return told.read_text() if told.exists() else ""

    @property
    def told(self) -> list[dict[str, Any]]:
        return [json.loads(line) for line in self.raw.splitlines(keepends=True) if line.endswith("\n")]

    @property
    def ids(self) -> list[str]:
        return [one["id"] for one in self.told]

    def pid(self, name: str) -> int:
        """What the script has written as `echo $$ > NAME`, or 0 so far."""
        path = self.folder / name
        return int((path.read_text() if path.exists() else "").strip() or 0)


@dataclass(frozen=True)
class Asked:
    method: str
    path: str
    headers: Mapping[str, str]
    body: bytes


@dataclass
class Web:
    """Answers what `answer` returns for a path: a status, and headers."""

    answer: Callable[[str], tuple[int, dict[str, str]]] = lambda _path: (202, {})
    asked: list[Asked] = field(default_factory=list)

    def __enter__(self) -> Self:
        web = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                size = int(self.headers["Content-Length"] or 0)
                asked = Asked(self.command, self.path, dict(self.headers), self.rfile.read(size))
                web.asked.append(asked)
                status, headers = web.answer(self.path)
                self.send_response(status)
                said = b"not\x1b today" if status >= 400 else b""
                for name, value in {**headers, "Content-Length": str(len(said))}.items():
                    self.send_header(name, value)
                self.end_headers()
                self.wfile.write(said)

            do_GET = do_POST  # noqa: N815  # http.server's name

            def log_message(self, *_: Any, **__: Any) -> None:
                """Be quiet."""

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._server.daemon_threads = True
        self.url = f"http://127.0.0.1:{self._server.server_port}"
        threading.Thread(target=self._server.serve_forever, args=(0.05,), daemon=True).start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._server.shutdown()
        self._server.server_close()
