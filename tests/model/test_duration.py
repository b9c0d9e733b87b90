"""Durations are read exactly and written so that they read back."""

from datetime import timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tenure.errors import InvalidDuration
from tenure.model.duration import Duration, format_duration, parse_duration


@pytest.mark.parametrize(
    ("given_as", "expected"),
    [
        ("250ms", timedelta(milliseconds=250)),
        ("1s", timedelta(seconds=1)),
        ("1.5s", timedelta(milliseconds=1500)),
        ("10m", timedelta(minutes=10)),
        ("3h", timedelta(hours=3)),
        ("7d", timedelta(days=7)),
        (" 1h30m ", timedelta(minutes=90)),
        ("0s", timedelta(0)),
        (10, timedelta(seconds=10)),
        (0.25, timedelta(milliseconds=250)),
        (timedelta(days=1), timedelta(days=1)),
    ],
)
def test_durations_are_read_in_every_form(given_as: Duration, expected: timedelta) -> None:
    assert parse_duration(given_as) == expected


@pytest.mark.parametrize(
    "given_as",
    [
        *("", "10", "s", "1 s", "1w", "1s!", "-1s", "1.5us", "٣s", "1e3s", "999999999999d"),
        *(-1, -0.5, 10**20, float("nan"), float("inf"), timedelta(seconds=-1)),
        *(True, None, []),
    ],
)
def test_anything_else_is_refused_by_name(given_as: Duration) -> None:
    with pytest.raises(InvalidDuration, match=r"^timeout: .*write '(250ms|10s)'"):
        parse_duration(given_as, name="timeout")


@given(st.timedeltas(min_value=timedelta(0)))
def test_what_is_written_reads_back(duration: timedelta) -> None:
    assert parse_duration(format_duration(duration)) == duration


def test_durations_are_written_shortly() -> None:
    texts = [format_duration(timedelta(seconds=seconds)) for seconds in (0, 0.25, 90, 3600, 86_461, -1)]
    assert texts == ["0s", "250ms", "1m30s", "1h", "1d1m1s", "-1s"]
