"""Reading an execution's events: each once, in order, whenever the reader joins, without polling.

The list is the record; the shared stream only says that there is something new. Where the cap has cut the
list, a reader gets one gap marker in place of what is gone.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime
from typing import Any

import msgpack
import redis

from tenure.store.connection import reaching
from tenure.store.keys import Keys
from tenure.store.stored import moment

GAP = "gap"


@dataclass(frozen=True, slots=True)
class Event:
    """One transition. `seq` counts from 1 per execution; a gap marker has that of the last event lost."""

    seq: int
    kind: str
    at: datetime | None
    capability: str | None
    data: dict[str, Any]


class Events:
    """The events of one namespace."""

    def __init__(self, client: redis.Redis, keys: Keys) -> None:
        # redis-py types every reply for both decoding modes at once; ours is always bytes.
        self._client: Any = client
        self._keys = keys

    @reaching()
    def read(self, instance: str, execution: str, *, after: int = 0) -> list[Event]:
        """Events with a greater `seq` than `after`, and a gap marker first where some are gone."""
        key = self._keys("events", instance, execution)
        last = int(self._client.hget(self._keys("execution", instance, execution), "events") or 0)
        if last <= after:
            return []
        # What is appended between the two reads shows up at the end, so ask for the tail and pick by number.
        events = [_event(raw) for raw in self._client.lrange(key, -(last - after + 500), -1)]
        events = [event for event in events if event.seq > after]
        if events and events[0].seq > after + 1:
            events.insert(0, Event(events[0].seq - 1, GAP, None, None, {"lost": events[0].seq - 1 - after}))
        return events

    @reaching()
    def cursor(self) -> bytes:
        """A position in the shared stream; what happens after this call is after it."""
        last = self._client.xrevrange(self._keys("feed"), count=1)
        return bytes(last[0][0]) if last else b"0-0"

    def wait(self, instance: str, execution: str, cursor: bytes, *, seconds: float) -> tuple[bytes, bool]:
        """Block until the execution has news after `cursor`: the new cursor, and whether there is news."""
        deadline = time.monotonic() + seconds
        while (left := deadline - time.monotonic()) > 0:
            cursor, news = self.news(cursor, seconds=min(left, 2.0))
            if (instance, execution) in news:
                return cursor, True
        return cursor, False

    @reaching()
    def news(self, cursor: bytes, *, seconds: float) -> tuple[bytes, frozenset[tuple[str, str]]]:
        """Block until there is news after `cursor`: the new cursor, and of which (instance, execution)."""
        block = max(1, int(seconds * 1000))
        news = set()
        for entry, fields in _entries(
            self._client.xread({self._keys("feed"): cursor}, count=500, block=block)
        ):
            cursor = entry
            instance, _, execution = fields[b"execution"].decode().partition("/")
            news.add((instance, execution))
        return cursor, frozenset(news)

    def follow(self, instance: str, execution: str, *, after: int = 0) -> Iterator[Event | None]:
        """Yield events as they come; yields None whenever it has waited two seconds in vain."""
        cursor, news = self.cursor(), True
        while True:
            if news:
                for event in self.read(instance, execution, after=after):
                    after = event.seq
                    yield event
            cursor, news = self.wait(instance, execution, cursor, seconds=2.0)
            if not news:
                yield None


def _entries(answer: Any) -> Iterator[tuple[bytes, dict[bytes, bytes]]]:
    """Entries of an XREAD reply in either protocol's shape."""
    if not answer:
        return
    streams = answer.values() if isinstance(answer, dict) else (entries for _, entries in answer)
    for entries in streams:
        for batch in entries if entries and isinstance(entries[0], list) else [entries]:
            yield from ((bytes(entry[0]), entry[1]) for entry in batch)


def _event(raw: bytes) -> Event:
    data = msgpack.unpackb(raw, unicode_errors="surrogateescape", strict_map_key=False)
    return Event(
        seq=int(data.pop("seq")),
        kind=str(data.pop("kind")),
        at=moment(int(data.pop("at"))),
        capability=data.pop("capability", None),
        data=data,
    )
