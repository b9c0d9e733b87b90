"""What `tenure doctor` reads: a server and a namespace, as they are. Nothing is judged here, nothing changed.

The clock is the server's own, without what a test build adds to it.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import Any, Final

import redis
import redis.exceptions as failures

from tenure.errors import UnsuitableServer
from tenure.model.status import RouteIndex
from tenure.store.connection import reaching
from tenure.store.keys import Keys
from tenure.store.outbox import OutboxEvent, read_event

_PROBES: Final = 5
#: Events of the outbox that are looked at; what is due first is seldom much younger than the rest.
_EVENTS: Final = 1000
#: A priority band in the score of a waiting route, as `_route.lua` has it; what is left is its ready time.
_BAND: Final = 2**41


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerReading:
    """`info` is the answer to INFO; `fsync` and `snapshots` are None where CONFIG is not allowed.

    `ahead`: how far the server's clock is ahead of this machine's, known to half a round trip.
    """

    info: Mapping[str, Any]
    #: appendfsync
    fsync: str | None
    #: Whether it takes snapshots by itself.
    snapshots: bool | None
    round_trip: timedelta
    ahead: timedelta


@dataclass(frozen=True, slots=True, kw_only=True)
class Backlog:
    """One queue: what waits there, and who is there to take it. `next_since` is ms of the server's clock."""

    queue: str
    sessions: int
    idle: int
    waiting: int
    tickets: int
    #: When what is to be taken next got ready.
    next_since: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class IndexReading:
    """How many routes an index has, and the one that has been there longest."""

    count: int
    oldest: str | None = None
    since: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class OutboxReading:
    """Events that are to be delivered; `since` is when the oldest was posted, `reason` why it last failed."""

    count: int
    since: int | None = None
    reason: str | None = None
    #: Those that cannot be read, and are not tried.
    set_aside: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class NamespaceReading:
    """Times are ms of the server's clock."""

    now: int
    live: int
    ended: int
    #: The leader and until when it leads; empty if nobody ever did, or the last one resigned.
    leader: str
    leads_until: int
    backlogs: Sequence[Backlog]
    unknown: IndexReading
    blocked: IndexReading
    leased: int
    #: Lapsed leases, with the first to lapse.
    lapsed: IndexReading
    outbox: OutboxReading
    #: When anything last happened to any execution.
    last_event_at: int | None


def examine_server(client: redis.Redis) -> ServerReading:
    """Ask a server what it is, how it keeps its data, what time it has, and how far away it is.

    Raises:
        StoreUnreachable: it does not answer.
        UnsuitableServer: it does not say what it is.
    """
    with reaching():
        try:
            info: Any = client.info()
        except failures.ResponseError as error:
            raise UnsuitableServer(
                f"it does not say what it is ({error}); allow its user the INFO command"
            ) from error
        probes = [_probe(client) for _ in range(_PROBES)]
        fsync, snapshots = _configured(client, "appendfsync"), _configured(client, "save")
    took = statistics.median(seconds for seconds, _ in probes)
    # The quickest one knows best.
    ahead = min(probes)[1]
    return ServerReading(
        info=info,
        fsync=fsync,
        snapshots=None if snapshots is None else bool(snapshots),
        round_trip=timedelta(seconds=took),
        ahead=timedelta(seconds=ahead),
    )


@reaching()
def examine_namespace(client: redis.Redis, keys: Keys) -> NamespaceReading:
    """Read a namespace; what changes meanwhile may be seen before or after.

    Raises:
        StoreUnreachable: the server does not answer.
    """
    now = _now_ms(client)
    names: Any = client.smembers(keys("queues"))
    with client.pipeline(transaction=False) as pipe:
        pipe.zcard(keys("live"))
        pipe.zcard(keys("terminal"))
        pipe.hmget(keys("leader"), "owner", "deadline")
        pipe.zcard(keys("leased"))
        pipe.zcount(keys("leased"), "-inf", now)
        pipe.zrange(keys("leased"), 0, 0, withscores=True)
        pipe.xrevrange(keys("feed"), count=1)
        live, ended, (owner, deadline), leased, lapsed, first, feed = pipe.execute()
    return NamespaceReading(
        now=now,
        live=live,
        ended=ended,
        leader=(owner or b"").decode(),
        leads_until=int(float(deadline or 0)),
        backlogs=[_backlog(client, keys, name.decode()) for name in sorted(names)],
        unknown=_index(client, keys, RouteIndex.UNKNOWN),
        blocked=_index(client, keys, RouteIndex.BLOCKED),
        leased=leased,
        lapsed=_entry(lapsed, first if lapsed else []),
        outbox=_outbox(client, keys),
        last_event_at=int(feed[0][0].split(b"-")[0]) if feed else None,
    )


def _probe(client: redis.Redis) -> tuple[float, float]:
    """Seconds of one round trip, and how far the server's clock was ahead in its middle."""
    began, at = time.perf_counter(), time.time()
    server = _now_ms(client) / 1000
    took = time.perf_counter() - began
    return took, server - (at + took / 2)


def _now_ms(client: redis.Redis) -> int:
    answer: Any = client.time()
    seconds, microseconds = answer
    return int(seconds) * 1000 + int(microseconds) // 1000


def _configured(client: redis.Redis, name: str) -> str | None:
    try:
        answer: Any = client.config_get(name)
    except failures.ResponseError:  # managed services keep CONFIG to themselves
        return None
    value = answer.get(name)
    return None if value is None else str(value)


def _backlog(client: redis.Redis, keys: Keys, queue: str) -> Backlog:
    with client.pipeline(transaction=False) as pipe:
        pipe.scard(keys("queue_sessions", queue))
        pipe.scard(keys("queue_idle", queue))
        pipe.zcard(keys("waiting", queue))
        pipe.llen(keys("tickets", queue))
        pipe.zrange(keys("waiting", queue), 0, 0, withscores=True)
        sessions, idle, waiting, tickets, first = pipe.execute()
    return Backlog(
        queue=queue,
        sessions=sessions,
        idle=idle,
        waiting=waiting,
        tickets=tickets,
        next_since=int(first[0][1]) % _BAND if first else None,
    )


def _outbox(client: redis.Redis, keys: Keys) -> OutboxReading:
    with client.pipeline() as pipe:
        pipe.zcard(keys("outbox"))
        pipe.hlen(keys("outbox_event"))
        pipe.zrange(keys("outbox"), 0, _EVENTS - 1)
        count, stored, ids = pipe.execute()
    raws: Any = client.hmget(keys("outbox_event"), ids) if ids else []
    events = [read_event(one.decode(), raw) for one, raw in zip(ids, raws, strict=True)]
    oldest = min((e for e in events if isinstance(e, OutboxEvent)), key=lambda e: e.at, default=None)
    return OutboxReading(
        count=count,
        since=None if oldest is None else int(oldest.at.timestamp() * 1000),
        reason=None if oldest is None else oldest.reason,
        set_aside=max(0, stored - count),
    )


def _index(client: redis.Redis, keys: Keys, where: RouteIndex) -> IndexReading:
    with client.pipeline(transaction=False) as pipe:
        pipe.zcard(keys.index(where))
        pipe.zrange(keys.index(where), 0, 0, withscores=True)
        count, first = pipe.execute()
    return _entry(count, first)


def _entry(count: int, first: Sequence[tuple[bytes, float]]) -> IndexReading:
    if not first:
        return IndexReading(count=count)
    member, score = first[0]
    return IndexReading(count=count, oldest=member.decode(errors="replace"), since=int(score))
