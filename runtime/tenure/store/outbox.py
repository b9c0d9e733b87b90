"""Events as the outbox has them: written by scripts, with a body that Python made, and read strictly.

What cannot be read is a value here and not an exception, so that one event never stops a page of them.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any, Final, NoReturn, TypeVar

import msgpack

T = TypeVar("T")

_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)


@dataclass(frozen=True, slots=True, kw_only=True)
class OutboxEvent:
    """One event. `tries` counts the deliveries that have failed, and `reason` is the last one's."""

    id: str
    at: datetime
    instance: str
    execution: str
    body: Mapping[str, Any]
    tries: int
    reason: str | None


@dataclass(frozen=True, slots=True)
class UnreadableEvent:
    """Its bytes are kept; `why` says what is wrong with them."""

    id: str
    why: str


def read_event(event_id: str, raw: bytes | None) -> OutboxEvent | UnreadableEvent:
    """An event from its bytes; None where the index names one that is not there."""
    if raw is None:
        return UnreadableEvent(event_id, "nothing is stored of it")
    try:
        return _decode(event_id, msgpack.unpackb(raw))
    # What msgpack raises, a value of another type, and a time that no calendar has.
    except (ValueError, KeyError, TypeError, OverflowError, RecursionError, msgpack.UnpackException) as error:
        return UnreadableEvent(event_id, f"{type(error).__name__}: {error}")


def _decode(event_id: str, fields: dict[str, Any]) -> OutboxEvent:
    body = json.loads(_of(str, fields["body"]), parse_constant=_refuse)
    reason = fields.get("reason")
    return OutboxEvent(
        id=event_id,
        at=_EPOCH + timedelta(milliseconds=_of(int, fields["at"])),
        instance=_of(str, fields["instance"]),
        execution=_of(str, fields["execution"]),
        body=_of(dict, body),
        tries=_of(int, fields.get("tries", 0)),
        reason=None if reason is None else _of(str, reason),
    )


def _of(kind: type[T], value: object) -> T:
    if type(value) is not kind:
        raise TypeError(f"{kind.__name__} is expected, and {type(value).__name__} found")
    return value


def _refuse(name: str) -> NoReturn:
    raise ValueError(f"{name} is not JSON")
