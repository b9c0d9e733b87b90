"""A ledger outside Redis: what task bodies really did, in order, whatever the store says."""

from __future__ import annotations

import json
import os
import time
from pathlib import Path
from typing import Any

from tenure import TaskContext

VARIABLE = "TENURE_TEST_LEDGER"


def folder() -> Path:
    """Where the ledger and the gates of this test lie."""
    return Path(os.environ[VARIABLE])


def write(what: str, ctx: TaskContext, **more: Any) -> None:
    """Append one line; lines of several processes do not mix."""
    entry = {
        "what": what,
        "key": ctx.idempotency_key,
        "attempt": ctx.attempt,
        "token": ctx.fencing_token,
        "pid": os.getpid(),
        "at": time.monotonic(),
        **more,
    }
    line = (json.dumps(entry) + "\n").encode()
    descriptor = os.open(folder() / "ledger", os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
    try:
        os.write(descriptor, line)
    finally:
        os.close(descriptor)


def read(where: Path, what: str | None = None) -> list[dict[str, Any]]:
    """All entries so far, or those of one kind."""
    try:
        lines = (where / "ledger").read_text().splitlines()
    except FileNotFoundError:
        return []
    entries = [json.loads(line) for line in lines]
    return [entry for entry in entries if what is None or entry["what"] == what]


def pass_gate(name: str) -> None:
    """Wait until the test opens a gate."""
    gate = folder() / f"gate-{name}"
    while not gate.exists():
        time.sleep(0.005)


def open_gate(where: Path, name: str) -> None:
    """Let every task pass that waits at the gate, now and later."""
    (where / f"gate-{name}").touch()
