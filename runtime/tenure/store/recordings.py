"""What a read-only replay goes by. There are no scripts here: nothing in this module can write (G13)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

import redis
import redis.exceptions as failures

from tenure.errors import Malformed
from tenure.store.connection import reaching
from tenure.store.keys import RECIPE, Keys
from tenure.store.stored import StoredExecution, read_stored

_PAGE: Final = 200


@dataclass(frozen=True, slots=True, kw_only=True)
class Recording:
    """One execution as of one moment: header, records, and by capability parameters and results."""

    stored: StoredExecution
    params: Mapping[str, bytes]
    results: Mapping[str, bytes]

    @property
    def input(self) -> bytes:
        """The recipe's own parameters; empty if they are gone."""
        return self.params.get(RECIPE, b"")

    @property
    def code(self) -> str | None:
        """The recipe that it is pinned to, as `name@version`; None if it was stored through the model."""
        return f"{self.stored.recipe}@{self.stored.version}" if RECIPE in self.stored.records else None


class Recordings:
    """The recordings of one namespace."""

    def __init__(self, client: redis.Redis, keys: Keys) -> None:
        # redis-py types every reply for both decoding modes at once; ours is always bytes.
        self._client: Any = client
        self._keys = keys

    @reaching()
    def read(self, instance: str, execution: str) -> Recording | None:
        """Everything in one transaction, so that no result is there without its record; None if it is gone.

        Raises:
            Malformed: what is stored cannot be read; the bytes are kept.
        """
        with self._client.pipeline(transaction=True) as pipe:
            pipe.hgetall(self._keys("execution", instance, execution))
            pipe.hgetall(self._keys("records", instance, execution))
            pipe.hgetall(self._keys("params", instance, execution))
            pipe.hgetall(self._keys("results", instance, execution))
            rows = pipe.execute(raise_on_error=False)
        for row in rows:
            if isinstance(row, failures.ResponseError):
                raise Malformed(f"execution {execution}: its keys cannot be read ({row}); they are kept")
        header, records, params, results = rows
        if not header:
            return None
        return Recording(
            stored=read_stored(instance, execution, header, records, []),
            params=_by_capability(params),
            results=_by_capability(results),
        )

    def live(self) -> Iterator[tuple[str, str]]:
        """Instance and id of what had not ended, oldest first, without what comes later.

        By time and not by rank: what ends meanwhile moves the ranks of those behind it.
        """
        key, after = self._keys("live"), "-inf"
        with reaching():
            newest = self._client.zrange(key, -1, -1, withscores=True)
        until = newest[0][1] if newest else after
        while True:
            with reaching():
                rows = self._client.zrangebyscore(key, after, until, start=0, num=_PAGE, withscores=True)
                if not rows:
                    return
                last = rows[-1][1]
                # What was started in one call has one time; of the last time here all are read at once.
                tied = self._client.zrangebyscore(key, last, last)
            page = [member for member, score in rows if score != last] + tied
            for member in page:
                instance, _, execution = member.decode().partition("/")
                yield instance, execution
            after = f"({last:.0f}"


def _by_capability(raws: Mapping[bytes, bytes]) -> dict[str, bytes]:
    return {name.decode(): raw for name, raw in raws.items()}
