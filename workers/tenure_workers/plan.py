"""What a worker is started with."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from tenure.model.allocation import Allocation
from tenure.wiring import Store
from tenure_workers.slot import Assignment


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """The pool, the code, and what each of the slots can use. Without a name it gets a random one."""

    pool: str
    modules: Sequence[str]
    slots: int
    allocation: Allocation
    name: str | None = None
    log_level: int = logging.INFO

    def assignment(self, store: Store) -> Assignment:
        """What every slot is told."""
        return Assignment(
            url=store.url,
            namespace=store.namespace,
            modules=list(self.modules),
            folder=str(Path.cwd()),
            allocation=self.allocation.to_data(),
            log_level=self.log_level,
        )
