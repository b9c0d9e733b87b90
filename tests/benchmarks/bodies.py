"""The task bodies, the same for both sides: stamp the time, return a small dict."""

from __future__ import annotations

import os
from functools import cache
from pathlib import Path
from typing import Any

from rq import get_current_job

from tests.benchmarks.stamps import VARIABLE, Stamps


@cache
def stamps() -> Stamps:
    return Stamps(Path(os.environ[VARIABLE]))


def alone(index: int) -> dict[str, int]:
    stamps().stamp(index)
    return {"index": index}


def step(before: dict[str, int]) -> dict[str, int]:
    stamps().stamp(before["base"] + before["step"])
    return {"base": before["base"], "step": before["step"] + 1}


def root(base: int) -> dict[str, int]:
    stamps().stamp(base)
    return {"base": base}


def leaf(item: dict[str, int]) -> dict[str, int]:
    stamps().stamp(item["base"] + 1 + item["number"])
    return {"number": item["number"]}


def join(base: int, leaves: list[dict[str, int]]) -> dict[str, int]:
    stamps().stamp(base + 1 + len(leaves))
    return {"leaves": len(leaves)}


# RQ's way to hand a result on is to fetch it from the job that this one depends on.


def step_after_another() -> dict[str, int]:
    return step(_results_before()[0])


def join_of_dependencies(base: int) -> dict[str, int]:
    return join(base, _results_before())


def _results_before() -> list[Any]:
    job = get_current_job()
    assert job is not None
    return [dependency.return_value() for dependency in job.fetch_dependencies()]
