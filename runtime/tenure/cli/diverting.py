"""What application code prints is not taken for what a command prints, however it is printed."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager, redirect_stdout
from typing import Final

_STDOUT: Final = 1


@contextmanager
def application_output() -> Iterator[None]:
    """Inside, whatever goes to stdout goes to stderr, also from a subprocess or by `os.write`."""
    with redirect_stdout(sys.stderr), _diverted():
        yield


@contextmanager
def _diverted() -> Iterator[None]:
    real = sys.__stdout__
    if real is None:
        # It was closed when this process began, so its number may be that of any file by now.
        yield
        return
    real.flush()
    kept = os.dup(_STDOUT)
    aside = os.open(os.devnull, os.O_WRONLY) if sys.__stderr__ is None else os.dup(sys.__stderr__.fileno())
    try:
        os.dup2(aside, _STDOUT)
        yield
    finally:
        # What was written by that object meanwhile is still in its buffer.
        real.flush()
        os.dup2(kept, _STDOUT)
        os.close(kept)
        os.close(aside)
