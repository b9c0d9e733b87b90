"""A finding: one thing that was looked at, how it is, and what to do about it."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import Self


class Level(StrEnum):
    """How bad it is. Only `failed` makes the command fail."""

    OK = "ok"
    WARNING = "warning"
    FAILED = "failed"


@dataclass(frozen=True, slots=True)
class Finding:
    """`advice` is one sentence, and empty where there is nothing to do."""

    check: str
    level: Level
    found: str
    advice: str = ""

    @classmethod
    def ok(cls, check: str, found: str) -> Self:
        """As it should be."""
        return cls(check, Level.OK, found)

    @classmethod
    def warning(cls, check: str, found: str, advice: str) -> Self:
        """It works, and somebody should know."""
        return cls(check, Level.WARNING, found, advice)

    @classmethod
    def failed(cls, check: str, found: str, advice: str) -> Self:
        """It does not work, or data may be lost."""
        return cls(check, Level.FAILED, found, advice)
