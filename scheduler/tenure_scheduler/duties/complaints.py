"""Logging what cannot be read: it stays where it is and is met again on every run, but told of once."""

from __future__ import annotations

import logging
from typing import Final

from tenure.errors import Malformed

log = logging.getLogger(__name__)

_REMEMBERED: Final = 1000


class Complaints:
    """Remembers what it has logged; when that becomes too much it forgets all of it and tells again."""

    def __init__(self) -> None:
        self._told: set[str] = set()

    def about(self, error: Malformed) -> None:
        """Log the error, unless it is known."""
        text = str(error)
        if text in self._told:
            return
        if len(self._told) >= _REMEMBERED:
            self._told.clear()
        self._told.add(text)
        log.error("%s", text)
