"""What a duty is to the loop, and what it says it has done."""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import Protocol


@dataclass(frozen=True, slots=True, kw_only=True)
class Report:
    """Counts of one `run_once`. Every duty adds its own."""

    #: Whether there was more to do than one run may; the loop comes back without waiting.
    more: bool = False
    #: What could not be read; each was logged, stays as it is and keeps its bytes.
    malformed: int = 0

    def __str__(self) -> str:
        """The counts that are not zero, `taken=3 malformed=1`, or nothing."""
        counts = ((field.name, getattr(self, field.name)) for field in fields(self) if field.name != "more")
        return " ".join(f"{name}={count}" for name, count in counts if count)


class Duty(Protocol):
    """One duty."""

    @property
    def name(self) -> str:
        """How the log calls it."""

    @property
    def is_nudged(self) -> bool:
        """Whether a nudge makes it due at once; else it is due once per tick."""

    def run_once(self, leader: int) -> Report:
        """Do one bounded piece of work under the leader's token.

        Raises:
            NotLeader: another scheduler leads now.
        """
