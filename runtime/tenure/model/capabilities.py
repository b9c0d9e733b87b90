"""The capabilities of one execution: where each stands, what it was given, what it has brought.

Not safe for threads by itself: `Execution` holds its lock around every call.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from datetime import datetime
from typing import Any

from tenure.errors import InvalidInput
from tenure.model.plain import Plain
from tenure.model.snapshot import CapabilityExecutionState
from tenure.model.status import CapabilityStatus, check_move, may_move


class Capabilities:
    """All of them begin as pending."""

    def __init__(self, execution_id: str, ids: Iterable[str]) -> None:
        self._subject = f"execution {execution_id}"
        pending = CapabilityExecutionState(status=CapabilityStatus.PENDING)
        self.states: dict[str, CapabilityExecutionState] = dict.fromkeys(ids, pending)
        self.params: dict[str, dict[str, Any]] = {}
        self.results: dict[str, Plain] = {}

    def check_known(self, capability_id: str) -> None:
        """Raise `InvalidInput` unless there is such a capability."""
        if capability_id not in self.states:
            known = ", ".join(self.states) or "none"
            raise InvalidInput(f"{self._subject} has no capability {capability_id!r}; it has {known}")

    def move(
        self,
        capability_id: str,
        to: CapabilityStatus,
        *,
        started_at: datetime | None = None,
        completed_at: datetime | None = None,
    ) -> None:
        """Change one status by the table of moves. Raises `IllegalTransition`."""
        state, status = self._of(capability_id)
        check_move(status, to, subject=f"capability {capability_id} of {self._subject}")
        self.states[capability_id] = replace(
            state, status=to, started_at=started_at or state.started_at, completed_at=completed_at
        )

    def close(self, capability_id: str, to: CapabilityStatus, reason: str, at: datetime) -> bool:
        """End one with a reason; False, and no change, if it has an outcome."""
        state, status = self._of(capability_id)
        if not may_move(status, to):
            return False
        self.states[capability_id] = replace(state, status=to, completed_at=at, error=reason)
        return True

    def abandon(self, reason: str, at: datetime, *, even_pending: bool) -> None:
        """Close what has no outcome as cancelled; what was never reached only if `even_pending`."""
        for capability_id, state in list(self.states.items()):
            if even_pending or state.status is not CapabilityStatus.PENDING:
                self.close(capability_id, CapabilityStatus.CANCELLED, reason, at)

    def _of(self, capability_id: str) -> tuple[CapabilityExecutionState, CapabilityStatus]:
        state = self.states[capability_id]
        return state, state.status or CapabilityStatus.PENDING
