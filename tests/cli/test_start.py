from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from tenure import Client, Needs
from tenure.cli.commands.start import read_arguments
from tenure.engine.driver import Driver
from tenure.errors import ExecutionNotFound, InvalidInput
from tests.cli.conftest import Tenure
from tests.waiting import wait_until

SAMPLES = ("--import", "tests.samples")


@pytest.mark.parametrize(
    ("words", "args", "kwargs"),
    [
        ([], [], {}),
        (["1", "1.5", "true", "null"], [1, 1.5, True, None], {}),
        (['{"a": [1]}', "[]", '"1"'], [{"a": [1]}, [], "1"], {}),
        (["Dune", "two words", "", "NaN", "-Infinity"], ["Dune", "two words", "", "NaN", "-Infinity"], {}),
        (["Dune", "chapters=3", "note=a=b"], ["Dune"], {"chapters": 3, "note": "a=b"}),
        (["note="], [], {"note": ""}),
        (["http://host/?a=b", "1=2", '"a=b"'], ["http://host/?a=b", "1=2", "a=b"], {}),
        (["text=two\nlines"], [], {"text": "two\nlines"}),
    ],
)
def test_words_are_json_or_else_text(words: Sequence[str], args: list[Any], kwargs: dict[str, Any]) -> None:
    assert read_arguments(words) == (args, kwargs)


@pytest.mark.parametrize(
    ("words", "complaint"),
    [
        (['{"a": 1'], "argument 1 is no JSON"),
        (["x", "y=[1,"], "argument 'y' is no JSON"),
        (["[NaN]"], "NaN is no JSON"),
        (["a=1", "a=2"], "'a' is given twice"),
        (["a=1", "2"], "argument 2 .* follows one that has"),
    ],
)
def test_a_slip_in_an_argument_is_not_stored_as_text(words: Sequence[str], complaint: str) -> None:
    with pytest.raises(InvalidInput, match=complaint):
        read_arguments(words)


def test_it_prints_the_id_alone(tenure: Tenure, client: Client) -> None:
    ended = tenure("start", *SAMPLES, "publish", "Dune")
    assert (ended.code, ended.err) == (0, "")
    assert client.get(ended.out.strip()).snapshot().recipe == "publish"


def test_options_reach_the_execution(tenure: Tenure, client: Client) -> None:
    options = [
        "--id",
        "dune",
        "--priority",
        "8",
        "--needs",
        "memory=2Gi,label.zone=eu",
        "--correlation",
        "c7",
    ]
    assert tenure("start", *SAMPLES, "publish", *options, "Dune", "chapters=3").out == "dune\n"
    stored = client.get("dune").snapshot()
    assert stored.priority_band == 9 - 8
    assert stored.correlation == "c7"
    assert stored.job_needs == Needs(memory="2Gi", label={"zone": "eu"})


def test_needs_that_cannot_be_read_are_told_of_their_option(tenure: Tenure) -> None:
    ended = tenure.here("start", *SAMPLES, "publish", "Dune", "--needs", "image.manifest_digest=sha256:aaa")
    assert ended.code == 2
    assert ended.err.startswith("Error: --needs: 'image.manifest_digest' is no property; an image is pinned")


def test_the_same_id_and_input_are_the_same_execution(tenure: Tenure, client: Client) -> None:
    words = ["start", *SAMPLES, "publish", "Dune", "--id", "dune"]
    assert [tenure(*words).out for _ in range(2)] == ["dune\n", "dune\n"]
    assert len(client.list()) == 1


def test_the_highest_version_is_started_unless_one_is_named(tenure: Tenure, client: Client) -> None:
    for name in ("greeting", "greeting@1"):
        tenure("start", "--id", name.replace("@", "-"), name, TENURE_IMPORT="tests.samples tests.waiting")
    assert client.get("greeting").snapshot().version == "2"
    assert client.get("greeting-1").snapshot().version == "1"


def test_waiting_prints_the_result_as_json(tenure: Tenure, client: Client, slot: Driver) -> None:
    with tenure.begin("start", *SAMPLES, "publish", "Dune", "--id", "dune", "--wait") as process:

        def is_there() -> bool:
            try:
                client.get("dune").status()
            except ExecutionNotFound:
                return False
            return True

        wait_until(is_there, 30, "the execution is started")
        slot.drain()
        out, err = process.communicate(timeout=30)
    assert (process.returncode, err) == (0, "")
    assert json.loads(out) == "DUNE 1 | DUNE 2"


def test_a_module_is_found_in_the_current_folder(tenure: Tenure, client: Client, tmp_path: Path) -> None:
    (tmp_path / "shop.py").write_text(
        "from tenure import Run, recipe\n\n@recipe\ndef order(run: Run, item: str) -> str:\n    return item\n"
    )
    assert tenure("start", "--import", "shop", "order", "tea", "--id", "tea", cwd=tmp_path).code == 0
    assert client.get("tea").snapshot().recipe == "order"


def test_a_name_of_the_start_itself_is_not_taken_for_an_argument(tenure: Tenure) -> None:
    ended = tenure("start", *SAMPLES, "publish", "Dune", "priority=3")
    assert ended.code == 2
    assert "priority= cannot be given by name" in ended.err
