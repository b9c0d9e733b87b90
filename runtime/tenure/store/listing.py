"""The executions of an instance in order, and places in that order that outlive what stood there.

A listing goes on from a position, never from a count: whatever is created, ended or deleted meanwhile, what
has been passed is not met again and what is still ahead is not passed over.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Final, Self

import redis

from tenure.errors import InvalidInput
from tenure.model.names import check_execution_id
from tenure.store.connection import reaching
from tenure.store.keys import Keys

# Fifteen digits of ms reach far beyond any clock, and a sorted set tells all of them apart.
_POSITION: Final = re.compile(r"([0-9]{1,15})/([A-Za-z0-9._-]+)")


@dataclass(frozen=True, slots=True, order=True)
class Position:
    """Where an execution stands in the listing of its instance, also when it is gone.

    The order is that of the listing: by creation, and by id where several were created in one millisecond.
    """

    created_ms: int
    execution: str

    def __str__(self) -> str:
        return f"{self.created_ms}/{self.execution}"

    @classmethod
    def read(cls, text: str) -> Self:
        """Read what `str` wrote. Raises `InvalidInput`."""
        if (read := _POSITION.fullmatch(str(text))) is None:
            raise InvalidInput(
                f"{text!r} is no cursor of a listing; give one that a page has shown, as '1767225600000/a'"
            )
        return cls(int(read[1]), check_execution_id(read[2]))


class Listing:
    """The listings of one namespace."""

    def __init__(self, client: redis.Redis, keys: Keys) -> None:
        # redis-py types every reply for both decoding modes at once; ours is always bytes.
        self._client: Any = client
        self._keys = keys

    def walk(self, instance: str, *, after: Position | None = None, size: int = 200) -> Iterator[Position]:
        """Every execution of the instance, the newest first, or those that follow `after`.

        What is created during a walk comes before its beginning. `size` is how many are read at a time.
        """
        while True:
            rows = self._read(instance, after, size)
            ahead = [position for position in rows if after is None or position < after]
            yield from ahead
            if len(rows) < size:
                return
            if ahead:
                after = ahead[-1]
            else:
                # More than were read share one millisecond, and all of these have been passed. An offset
                # among them would shift with each one that is deleted.
                size *= 2

    @reaching()
    def _read(self, instance: str, after: Position | None, size: int) -> list[Position]:
        """The newest positions from the millisecond of `after` on, those before it included."""
        newest = "+inf" if after is None else after.created_ms
        rows = self._client.zrevrangebyscore(
            self._keys("listing", instance), newest, "-inf", start=0, num=size, withscores=True
        )
        return [Position(int(score), member.decode()) for member, score in rows]
