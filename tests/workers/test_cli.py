"""The options of the group reach `tenure worker` and `tenure scheduler` as they reach every other command."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
TENURE = str(Path(sys.executable).parent / "tenure")


@pytest.mark.parametrize(
    "words", [["worker", "small", "--import", "tests.jobs.work"], ["scheduler"]], ids=["worker", "scheduler"]
)
def test_a_server_named_before_the_command_is_the_one_that_is_used(words: list[str]) -> None:
    done = subprocess.run(
        [TENURE, "--url", "redis://127.0.0.1:1", *words],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == 5
    assert "127.0.0.1:1" in done.stderr


def test_a_namespace_named_before_the_command_is_the_one_that_is_used(url: str, namespace: str) -> None:
    done = subprocess.run(
        [TENURE, "--url", url, "--namespace", "no good", "worker", "small", "--import", "tests.jobs.work"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == 2
    assert "no good" in done.stderr
