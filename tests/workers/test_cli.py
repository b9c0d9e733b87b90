"""The options of the group reach `tenure worker` and `tenure scheduler` as they reach every other command."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
TENURE = str(Path(sys.executable).parent / "tenure")


WORKER = ["worker", "small", "--import", "tests.jobs.work"]
DIGEST = "sha256:" + "a" * 64
REMEDY = (
    "image.manifest_digest=sha256:... in --allocation, or as TENURE_ALLOCATION_IMAGE_MANIFEST_DIGEST "
    "if TENURE_ALLOCATION_IMAGE told it"
)


def ended(*words: str, **environment: str) -> subprocess.CompletedProcess[str]:
    """The command on a server that nobody can reach, so that it ends once it has said what it has to say."""
    clean = {name: text for name, text in os.environ.items() if not name.startswith("TENURE_")}
    return subprocess.run(
        [TENURE, "--url", "redis://127.0.0.1:1", *words],
        cwd=ROOT,
        env=clean | environment,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )


@pytest.mark.parametrize("words", [WORKER, ["scheduler"]], ids=["worker", "scheduler"])
def test_a_server_named_before_the_command_is_the_one_that_is_used(words: list[str]) -> None:
    done = ended(*words)
    assert done.returncode == 5
    assert "127.0.0.1:1" in done.stderr


def test_a_namespace_named_before_the_command_is_the_one_that_is_used(url: str, namespace: str) -> None:
    done = subprocess.run(
        [TENURE, "--url", url, "--namespace", "no good", *WORKER],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == 2
    assert "no good" in done.stderr


def test_an_allocation_that_cannot_be_read_is_told_of_its_option_or_variable() -> None:
    option = ended(*WORKER, "--allocation", "resources.license=1")
    assert option.returncode == 2
    assert option.stderr.startswith(
        "Error: --allocation: 'resources.license' is no property; write 'resource."
    )
    variable = ended(*WORKER, "--allocation", "cpu=1", TENURE_ALLOCATION_CPU="x")
    assert variable.returncode == 2
    assert variable.stderr.startswith("Error: TENURE_ALLOCATION_CPU: cpu: 'x' is no quantity")


@pytest.mark.parametrize(
    ("option", "variables", "remedied"),
    [
        (f"image=a@{DIGEST}", {}, False),
        (f"image=a@{DIGEST}", {"TENURE_ALLOCATION_IMAGE_MANIFEST_DIGEST": DIGEST}, False),
        (f"image=a@{DIGEST},image.manifest_digest={DIGEST}", {}, True),
        ("cpu=1", {"TENURE_ALLOCATION_IMAGE": f"a@{DIGEST}"}, False),
        (
            "cpu=1",
            {"TENURE_ALLOCATION_IMAGE": f"a@{DIGEST}", "TENURE_ALLOCATION_IMAGE_MANIFEST_DIGEST": DIGEST},
            True,
        ),
        ("image=a:1", {}, True),
        ("cpu=1", {}, True),
    ],
)
def test_an_image_whose_digest_satisfies_no_pin_is_warned_of_once(
    option: str, variables: dict[str, str], *, remedied: bool
) -> None:
    done = ended(*WORKER, "--slots", "3", "--allocation", option, **variables)
    assert done.returncode == 5
    assert done.stderr.count(REMEDY) == done.stderr.count("WARNING") == (0 if remedied else 1)
