"""Durations as people write them: "250ms", "10m", "1h30m", a number of seconds, or a `timedelta`."""

from __future__ import annotations

import re
from datetime import timedelta
from decimal import Decimal
from types import MappingProxyType
from typing import TYPE_CHECKING, Final, TypeAlias

from tenure.errors import InvalidDuration

if TYPE_CHECKING:
    from collections.abc import Mapping

Duration: TypeAlias = str | int | float | timedelta

#: Microseconds of each unit, the largest first: the order in which they are written.
_UNITS: Final[Mapping[str, int]] = MappingProxyType(
    {"d": 86_400_000_000, "h": 3_600_000_000, "m": 60_000_000, "s": 1_000_000, "ms": 1000, "us": 1}
)
_PART: Final = re.compile(r"([0-9]{1,18}(?:\.[0-9]{1,18})?)(us|ms|s|m|h|d)")
_TEXT: Final = re.compile(rf"(?:{_PART.pattern})+")
_ACCEPTED: Final = "write '250ms', '1s', '10m', '3h', '7d' or '1h30m', or give seconds or a timedelta"


def parse_duration(value: Duration, *, name: str = "duration") -> timedelta:
    """Read a duration; a bare number is seconds. Zero is a duration, less is not.

    Raises:
        InvalidDuration: it cannot be read, is negative, is too long, or is finer than a microsecond.
    """
    duration = _read(value, name)
    if duration < timedelta(0):
        raise InvalidDuration(f"{name}: {value!r} is negative; {_ACCEPTED}")
    return duration


def format_duration(duration: timedelta) -> str:
    """The text of a duration, exactly: "1h30m", "250ms", "0s"."""
    rest = duration // timedelta(microseconds=1)
    if rest < 0:
        return "-" + format_duration(-duration)
    text = ""
    for unit, size in _UNITS.items():
        count, rest = divmod(rest, size)
        text += f"{count}{unit}" if count else ""
    return text or "0s"


def _read(value: Duration, name: str) -> timedelta:
    if isinstance(value, timedelta):
        return value
    if isinstance(value, bool) or not isinstance(value, str | int | float):
        raise InvalidDuration(f"{name}: {value!r} is no duration; {_ACCEPTED}")
    try:
        # A float of seconds comes from a clock more often than from a keyboard: timedelta may round it.
        return _read_text(value, name) if isinstance(value, str) else timedelta(seconds=value)
    except (OverflowError, ValueError) as error:
        if isinstance(error, InvalidDuration):
            raise
        raise InvalidDuration(f"{name}: {value!r} is too long or not a number; {_ACCEPTED}") from error


def _read_text(text: str, name: str) -> timedelta:
    if text.strip().isdecimal():
        raise InvalidDuration(
            f"{name}: {text!r} has no unit; write '{text.strip()}s' for seconds, or ms, m, h, d"
        )
    if not _TEXT.fullmatch(text.strip()):
        raise InvalidDuration(f"{name}: {text!r} is no duration; {_ACCEPTED}")
    total = sum(Decimal(number) * _UNITS[unit] for number, unit in _PART.findall(text))
    if total != int(total):
        raise InvalidDuration(f"{name}: {text!r} is finer than a microsecond; {_ACCEPTED}")
    return timedelta(microseconds=int(total))
