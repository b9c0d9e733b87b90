"""Times, durations, progress and places, in the words that tables use."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any, Final

_BAR: Final = 10


def when(moment: datetime | None) -> str:
    """A time as the reader's clock on the wall shows it."""
    return "" if moment is None else moment.astimezone().strftime("%Y-%m-%d %H:%M:%S")


def when_shortly(moment: datetime) -> str:
    """A time in as few characters as will do: of today, without the day."""
    local = moment.astimezone()
    is_today = local.date() == datetime.now().astimezone().date()
    return local.strftime("%H:%M:%S" if is_today else "%Y-%m-%d %H:%M")


def took(start: datetime | None, end: datetime | None) -> str:
    """The time between, as precise as anybody wants it."""
    if start is None or end is None:
        return ""
    return roughly(end - start)


def roughly(duration: timedelta) -> str:
    """A duration in its two largest units: "12 ms", "3.4 s", "5 m 10 s", "2 h 3 m", "4 d 1 h"."""
    seconds = duration.total_seconds()
    if seconds < 1:
        return f"{seconds * 1000:.0f} ms"
    if seconds < 60:  # noqa: PLR2004  # a minute
        return f"{seconds:.1f} s"
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    days, hours = divmod(hours, 24)
    parts = [(days, "d"), (hours, "h"), (minutes, "m"), (rest, "s")]
    first = next(n for n, (count, _) in enumerate(parts) if count)
    return " ".join(f"{count} {unit}" for count, unit in parts[first : first + 2] if count)


def progress(reported: Sequence[Any] | None, *, bar: bool) -> str:
    """What a task reported as (done, total, message), with a bar where a person is looking."""
    if not reported:
        return ""
    done, total, message = [*reported, None, None, None][:3]
    if total is None:
        amount = f"{done:g}"
    else:
        amount = f"{done:g}/{total:g}"
        if bar and total > 0:
            amount = f"{_bar(done / total)} {amount}"
    return f"{amount} {message or ''}".rstrip()


def place(capability: Mapping[str, Any]) -> str:
    """The index a capability's route is in, with what tells it apart there; empty once it has an outcome."""
    match capability["where"]:
        case None:
            return ""
        case "waiting":
            return f"waiting in {capability['queue']}"
        case "leased":
            return f"leased by {capability['session']}"
        case "due":
            return f"due at {when(capability['due_at'])}"
        case where:
            return str(where)


def handed_off(allocation: str | None) -> str:
    """What the slot had that handed a route off last; empty if none did."""
    return "" if allocation is None else allocation or "nothing that is known"


def amount(count: int, noun: str) -> str:
    """A number of things: "1 item" or "2 items"."""
    return f"{count} {noun}" if count == 1 else f"{count} {noun}s"


def _bar(share: float) -> str:
    full = round(max(0.0, min(1.0, share)) * _BAR)
    return "█" * full + "░" * (_BAR - full)
