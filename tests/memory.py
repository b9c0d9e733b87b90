"""A memory cgroup of a test's own, where the machine allows one."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.waiting import wait_until

V1, V2 = Path("/sys/fs/cgroup/memory"), Path("/sys/fs/cgroup")


@contextmanager
def memory_cgroup(name: str, limit: int) -> Iterator[Path]:
    """Make a cgroup with a limit in bytes; skips the test where that is not allowed."""
    group = (V1 if (V1 / "memory.limit_in_bytes").exists() else V2) / name
    try:
        group.mkdir()
        (group / ("memory.limit_in_bytes" if group.parent == V1 else "memory.max")).write_text(str(limit))
    except OSError as error:
        pytest.skip(f"no memory cgroup can be made here: {error}")
    try:
        yield group
    finally:
        # The kernel takes a moment to forget those that were in it.
        wait_until(lambda: not (group / "cgroup.procs").read_text().strip(), 20, "the cgroup is empty")
        group.rmdir()
