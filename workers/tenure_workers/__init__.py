"""Workers: agents, their slots, and the running of tasks under a lease."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from tenure_workers.inprocess import InProcessWorker

__all__ = ["InProcessWorker"]


def __getattr__(name: str) -> Any:
    # Not at import: `python -m tenure_workers.slot` must find its own module not loaded yet.
    if name in __all__:
        from tenure_workers.inprocess import InProcessWorker  # noqa: PLC0415  # see above

        return InProcessWorker
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
