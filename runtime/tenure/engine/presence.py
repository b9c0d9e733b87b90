"""What a slot shows its agent, and the agent its slot, while user code runs.

The agent renews only what a slot has shown: (route, token, started) triples. It charges a death by the
phase shown last.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import timedelta
from enum import StrEnum
from typing import Protocol


class Phase(StrEnum):
    """What the slot is doing."""

    IDLE = "idle"
    RECIPE = "recipe"
    TASK = "task"


class Presence(Protocol):
    """Both directions of the shared memory between a slot and its agent."""

    def show(
        self, phase: Phase, leases: Sequence[tuple[str, int, bool]], *, timeout: timedelta | None = None
    ) -> None:
        """Publish the phase and the leases held, as (route, token, started), before acting on them.

        What is shown with a `timeout` and held longer is stopped by the agent.
        """

    def show_progress(self, text: str) -> None:
        """Publish how far the task has come; a cause of death quotes it."""

    def cancelled(self, token: int) -> bool:
        """Whether the agent was told to cancel what is held under this token."""

    def draining(self) -> bool:
        """Whether the agent wants the slot to stop taking work."""


class Unwatched:
    """The presence of a driver that no agent watches: its leases are not renewed."""

    def show(
        self, phase: Phase, leases: Sequence[tuple[str, int, bool]], *, timeout: timedelta | None = None
    ) -> None:
        """Show nobody."""

    def show_progress(self, text: str) -> None:
        """Show nobody."""

    def cancelled(self, token: int) -> bool:  # noqa: ARG002  # the protocol's
        """Never: there is no agent to be told."""
        return False

    def draining(self) -> bool:
        """Never."""
        return False
