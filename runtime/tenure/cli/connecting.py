"""From the global options to an open client. Apart from `target`, so that `--help` loads no client."""

from __future__ import annotations

from tenure.cli.target import Target
from tenure.client.client import Client


def connect(target: Target) -> Client:
    """Open a client; use it as a context manager."""
    return Client(target.url, instance=target.instance, namespace=target.namespace)
