"""The verdict: whether the index is right, and whether anything ran again that had been completed."""

from __future__ import annotations

import hashlib
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tenure.cli.demo.ledger import ENDED, STARTED, Line
from tenure.cli.demo.words import add_file, index_lines, list_files, read_text
from tenure.store.stored import StoredExecution


@dataclass(frozen=True, slots=True)
class Verdict:
    """One line of the verdict. `holds` is None if there was nothing to judge."""

    holds: bool | None
    text: str


def plain_index(folder: Path, limit_bytes: int) -> str:
    """Build the index plainly: one process, one loop, one table; returns its SHA-256."""
    index: dict[str, list[str]] = {}
    for number, (path, _) in enumerate(list_files(folder, limit_bytes).files):
        text = read_text(folder / path)
        if text is not None:
            add_file(index, number, text)
    digest = hashlib.sha256()
    for line in index_lines(index):
        digest.update(line.encode())
    return digest.hexdigest()


def check_index(durable: str, plain: str) -> Verdict:
    """Whether both ways gave the same bytes."""
    if durable == plain:
        return Verdict(True, f"the index equals the one built plainly in one process (SHA-256 {plain[:12]})")
    return Verdict(
        False,
        f"the index ({durable[:12]}) is not the one built plainly ({plain[:12]}), "
        "unless a file has been changed meanwhile",
    )


def check_ledger(lines: Sequence[Line], execution: StoredExecution) -> Iterator[Verdict]:
    """Compare what the ledger says of every task with what the execution has recorded."""
    runs = [line for line in lines if line.what == STARTED]
    completed = _completed(execution)
    repeated = sorted(_run_after_completion(lines, completed))
    yield Verdict(
        not repeated,
        f"no completed task ran again: {len(runs)} runs of {len(completed)} completed tasks in the ledger"
        if not repeated
        else f"ran again after they were completed: {', '.join(repeated)}",
    )
    unrecorded = sorted(_unrecorded(runs, execution, completed))
    yield Verdict(
        not unrecorded,
        f"every run is an attempt on record: {len(completed)} completed, {_lost(execution)} did not"
        if not unrecorded
        else f"not as recorded: {', '.join(unrecorded)}",
    )


def _completed(execution: StoredExecution) -> Mapping[str, Mapping[str, Any]]:
    """The records of completed task calls; the group record of a map has no token of its own."""
    return {
        name: record
        for name, record in execution.capabilities.items()
        if record["status"] == "completed" and record.get("token") is not None
    }


def _lost(execution: StoredExecution) -> int:
    return len(execution.attempts)


def _run_after_completion(lines: Sequence[Line], completed: Mapping[str, Mapping[str, Any]]) -> set[str]:
    """Tasks with a run that began after the end of the run whose result is recorded.

    Tokens grow with every lease, so a later lease shows even if its line came first.
    """
    over: set[str] = set()
    repeated: set[str] = set()
    for line in lines:
        record = completed.get(line.capability)
        if record is None:
            continue
        if line.what == STARTED and (line.capability in over or line.token > record["token"]):
            repeated.add(line.capability)
        if line.what == ENDED and line.token == record["token"]:
            over.add(line.capability)
    return repeated


def _unrecorded(
    runs: Sequence[Line], execution: StoredExecution, completed: Mapping[str, Mapping[str, Any]]
) -> Iterator[str]:
    """Where ledger and record disagree, except that a run may die before it can write its first line."""
    recorded: dict[str, set[int]] = defaultdict(set)
    for attempt in execution.attempts:
        recorded[attempt["capability"]].add(attempt["token"])
    for capability, record in completed.items():
        recorded[capability].add(record["token"])
    for (capability, token), count in Counter((run.capability, run.token) for run in runs).items():
        if token not in recorded[capability]:
            yield f"{capability} ran under lease {token}, of which nothing is recorded"
        if count > 1:
            yield f"{capability} ran {count} times under lease {token}"
    began = {(run.capability, run.token) for run in runs}
    for capability, record in completed.items():
        if (capability, record["token"]) not in began:
            yield f"{capability} is completed, but the ledger does not have that run"
