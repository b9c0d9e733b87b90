"""What `tenure doctor` goes through one by one: headers of live executions, and routes that wait for slots.

At most so many of each, the oldest first. Nothing is judged here, and nothing changed.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Final

import redis

from tenure.model.status import RouteIndex
from tenure.store.connection import reaching
from tenure.store.keys import SCHEMA, Keys

#: Of live executions, and of the routes of each index.
LOOKED_AT: Final = 10_000
_PAGE: Final = 500


@dataclass(frozen=True, slots=True, kw_only=True)
class HeaderSurvey:
    """Live executions whose header cannot be read, as `instance/execution`: of another schema, or damaged."""

    newer: Sequence[str]
    damaged: Sequence[str]
    #: Whether all that there are have been looked at.
    is_whole: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class RouteSurvey:
    """Routes as indexes name them: those that nobody can admit; those that wait in queues or are blocked."""

    parked: Sequence[str]
    others: Sequence[str]
    is_whole: bool


@reaching()
def survey_headers(client: redis.Redis, keys: Keys) -> HeaderSurvey:
    """Look at the headers of live executions. Raises `StoreUnreachable`."""
    newer: list[str] = []
    damaged: list[str] = []
    members, is_whole = _members(client, keys("live"))
    for page in _pages(members):
        with client.pipeline(transaction=False) as pipe:
            for member in page:
                key = keys("execution", *member.split("/", 1))
                # In this order: one that is deleted in between is gone, and not damaged.
                pipe.hmget(key, "status", "schema")
                pipe.exists(key)
            rows = pipe.execute(raise_on_error=False)
        for member, found, exists in zip(page, rows[::2], rows[1::2], strict=True):
            if not exists:
                continue  # gone: index repair drops it
            if isinstance(found, Exception) or None in found:
                damaged.append(member)
            elif found[1] != str(SCHEMA).encode():
                newer.append(member)
    return HeaderSurvey(newer=newer, damaged=damaged, is_whole=is_whole)


@reaching()
def survey_routes(client: redis.Redis, keys: Keys) -> RouteSurvey:
    """Look up which routes wait for a slot, or were stopped in doing so. Raises `StoreUnreachable`."""
    queues: Any = client.smembers(keys("queues"))
    parked, is_whole = _members(client, keys.index(RouteIndex.ENVIRONMENT))
    others: list[str] = []
    for key in [*(keys("waiting", name.decode()) for name in sorted(queues)), keys.index(RouteIndex.BLOCKED)]:
        found, is_all = _members(client, key)
        others += found
        is_whole = is_whole and is_all
    return RouteSurvey(parked=parked, others=others, is_whole=is_whole)


def _members(client: redis.Redis, key: str) -> tuple[list[str], bool]:
    """The oldest of an index, and whether these are all."""
    found: Any = client.zrange(key, 0, LOOKED_AT)
    # What has no slash is no entry of ours, and names nothing that could be looked at.
    names = [raw.decode(errors="replace") for raw in found[:LOOKED_AT] if b"/" in raw]
    return names, len(found) <= LOOKED_AT


def _pages(members: Sequence[str]) -> Iterator[Sequence[str]]:
    for first in range(0, len(members), _PAGE):
        yield members[first : first + _PAGE]
