"""What a slot shows its agent, and the agent its slot, while user code runs.

The agent renews only what a slot has shown: (route, token, started) triples. It charges a death by the
phase shown last.
"""

from __future__ import annotations

from collections.abc import Sequence
from enum import StrEnum
from typing import Protocol


class Phase(StrEnum):
    """What the slot is doing."""

    IDLE = "idle"
    RECIPE = "recipe"
    TASK = "task"


class Presence(Protocol):
    """Both directions of the shared memory between a slot and its agent."""

    def show(self, phase: Phase, leases: Sequence[tuple[str, int, bool]]) -> None:
        """Publish the phase and the leases held, as (route, token, started), before acting on them."""

    def draining(self) -> bool:
        """Whether the agent wants the slot to stop taking work."""


class Unwatched:
    """The presence of a driver that no agent watches: its leases are not renewed."""

    def show(self, phase: Phase, leases: Sequence[tuple[str, int, bool]]) -> None:
        """Show nobody."""

    def draining(self) -> bool:
        """Never."""
        return False
