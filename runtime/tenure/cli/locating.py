"""From the global options to a server's URL, for commands that do more there than a client does."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tenure.cli.target import Target
from tenure.embedded import EmbeddedServer
from tenure.wiring import FOLDER


@contextmanager
def located(target: Target) -> Iterator[str]:
    """The URL that was named, or else that of the embedded server, which lives as long as this.

    Raises:
        EmbeddedServerError: it can neither be started nor joined.
    """
    url = target.url or os.environ.get("TENURE_REDIS_URL")
    if url:
        yield url
        return
    with EmbeddedServer.attach(Path(os.environ.get("TENURE_FOLDER", FOLDER))) as server:
        yield server.url
