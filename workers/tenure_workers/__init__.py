"""Workers: agents, their slots, and the running of tasks under a lease."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from tenure_workers.admission import Admission
    from tenure_workers.inprocess import InProcessWorker

__all__ = ["Admission", "InProcessWorker"]

_MODULES: Final = {"Admission": "admission", "InProcessWorker": "inprocess"}


def __getattr__(name: str) -> Any:
    # Not at import: `python -m tenure_workers.slot` must find its own module not loaded yet.
    if name in _MODULES:
        return getattr(import_module(f"{__name__}.{_MODULES[name]}"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
