"""How Tenure's processes log: one line on stderr that ends with what it is about.

Records carry stable keys in `extra` (execution, capability, attempt, token, session); the formatter shows
them, so that a line can be found by any of them.
"""

from __future__ import annotations

import logging
import sys

KEYS = ("execution", "capability", "attempt", "token", "session")


class KeyedFormatter(logging.Formatter):
    """Appends `key=value` for each stable key that a record carries."""

    def formatMessage(self, record: logging.LogRecord) -> str:  # noqa: N802  # logging's name
        """The line, with its keys before any traceback."""
        said = [
            f"{key}={getattr(record, key)}" for key in KEYS if getattr(record, key, None) not in (None, "")
        ]
        line = super().formatMessage(record)
        return f"{line} [{' '.join(said)}]" if said else line


def configure(level: int) -> None:
    """Log to stderr, as a process of Tenure does."""
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(KeyedFormatter("%(asctime)s %(levelname)s %(name)s[%(process)d] %(message)s"))
    logging.basicConfig(level=level, handlers=[handler])
