"""Waiting for an event, with a limit and a name for what did not happen."""

from __future__ import annotations

import time
from collections.abc import Callable

import pytest

_POLL_SECONDS = 0.01


def wait_until(predicate: Callable[[], object], seconds: float, what: str) -> None:
    """Return as soon as `predicate` holds; fail the test with `what` if it does not within `seconds`."""
    deadline = time.monotonic() + seconds
    while not predicate():
        if time.monotonic() > deadline:
            pytest.fail(f"not within {seconds} s: {what}")
        time.sleep(_POLL_SECONDS)
