"""A real Valkey server for a folder, shared by every process that works on that folder."""

from tenure.embedded.server import EmbeddedServer

__all__ = ["EmbeddedServer"]
