from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

from tenure.cli.output import jsonable, one_line
from tenure.cli.words import progress, roughly


@pytest.mark.parametrize(
    ("seconds", "words"),
    [
        (0, "0 ms"),
        (0.0124, "12 ms"),
        (3.44, "3.4 s"),
        (60, "1 m"),
        (310, "5 m 10 s"),
        (7380, "2 h 3 m"),
        (90000, "1 d 1 h"),
    ],
)
def test_durations_in_their_largest_units(seconds: float, words: str) -> None:
    assert roughly(timedelta(seconds=seconds)) == words


@pytest.mark.parametrize(
    ("reported", "words"),
    [
        (None, ""),
        ([3, None, ""], "3"),
        ([3, None, "pages"], "3 pages"),
        ([1, 4, ""], "██░░░░░░░░ 1/4"),
        ([2.5, 10, "half"], "██░░░░░░░░ 2.5/10 half"),
        ([9, 4, ""], "██████████ 9/4"),
        ([0, 0, ""], "0/0"),
    ],
)
def test_progress_with_a_bar(reported: list[Any] | None, words: str) -> None:
    assert progress(reported, bar=True) == words


def test_one_line_has_no_breaks_and_no_control_characters() -> None:
    assert one_line("a\n b\t\tc\x1b[0m") == "a b c\N{REPLACEMENT CHARACTER}[0m"
    assert one_line("x" * 20, 5) == "xxxx…"


def test_numbers_that_json_lacks_are_texts() -> None:
    assert jsonable({"a": (float("inf"), float("nan"), 1.5)}) == {"a": ["inf", "nan", 1.5]}
