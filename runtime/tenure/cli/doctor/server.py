"""Whether a server is one that executions can rely on."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from datetime import UTC, datetime, timedelta
from typing import Any, Final

from tenure.cli.doctor.findings import Finding
from tenure.cli.words import roughly
from tenure.errors import UnsuitableServer
from tenure.settings import Settings
from tenure.store.checkup import ServerReading
from tenure.store.connection import judge_server, without_password

#: What `judge_server` finds nothing wrong with, so that it can be asked about one thing at a time.
_SUITABLE: Final = {"run_id": "", "redis_version": "7.0", "redis_mode": "standalone"}
#: A clock further off makes `at=` and the times that are shown misleading; leases go by the server's alone.
_CLOCK_TOLERANCE: Final = timedelta(seconds=1)
#: A chain takes one round trip for each task.
_SLOW_ROUND_TRIP: Final = timedelta(milliseconds=25)
#: Of the memory limit, in percent.
_NEARLY_FULL: Final = 90


def examine(reading: ServerReading, url: str, settings: Settings) -> Iterator[Finding]:
    """Every finding about a server that answers."""
    info, shown = reading.info, without_password(url)
    yield Finding.ok("reachable", f"it answers at {shown}")
    yield _suits("version", info, url, _product(info), "redis_version")
    yield _suits("mode", info, url, "a single primary", "redis_mode", "cluster_enabled")
    yield _role(info)
    yield _suits("eviction", info, url, "it evicts nothing", "maxmemory_policy")
    yield _persistence(reading, shown)
    yield _memory(info, shown)
    yield _clock(reading)
    yield _round_trip(reading.round_trip, settings)


def is_usable(info: Mapping[str, Any], url: str) -> bool:
    """Whether a store can be opened on it."""
    try:
        judge_server(info, url)
    except UnsuitableServer:
        return False
    return True


def _suits(check: str, info: Mapping[str, Any], url: str, good: str, *fields: str) -> Finding:
    """By the rule by which a client, too, refuses the server; its error says what to do."""
    asked = {field: info[field] for field in fields if field in info}
    if check == "version":
        asked.setdefault("redis_version", "")
    try:
        judge_server({**_SUITABLE, **asked}, url)
    except UnsuitableServer as error:
        found, _, advice = str(error).partition("; ")
        return Finding.failed(check, found, advice)
    return Finding.ok(check, good)


def _product(info: Mapping[str, Any]) -> str:
    version = info.get("redis_version", "")
    if info.get("server_name") == "valkey":
        return f"Valkey {info.get('valkey_version')}, with the commands of Redis {version}"
    return f"Redis {version}"


def _role(info: Mapping[str, Any]) -> Finding:
    if info.get("role") == "slave":
        primary = f"{info.get('master_host')}:{info.get('master_port')}"
        return Finding.failed(
            "role",
            f"it is a replica of {primary}, which refuses writes",
            f"give the URL of the primary ({primary}), or a name that follows it after a failover",
        )
    count = int(info.get("connected_slaves", 0))
    return Finding.ok("role", f"primary, {count} replicas" if count else "primary, without replicas")


def _persistence(reading: ServerReading, shown: str) -> Finding:
    info = reading.info
    if not info.get("aof_enabled"):
        return _no_log(reading, shown)
    for field in ("aof_last_write_status", "aof_last_bgrewrite_status"):
        if info.get(field, "ok") != "ok":
            return Finding.failed(
                "persistence",
                f"it cannot write its append-only file ({field} is {info[field]})",
                "make room on its disk and look into its log",
            )
    match reading.fsync:
        case "always":
            return Finding.ok("persistence", "append-only file, written through: a crash loses nothing")
        case "everysec":
            return Finding.ok(
                "persistence",
                "append-only file, flushed every second: a crash of the server loses nothing, one of its "
                "machine about the last second",
            )
        case None:
            return Finding.ok("persistence", "append-only file; how often it is flushed, it does not say")
        case policy:
            return Finding.warning(
                "persistence",
                f"append-only file, flushed when the machine likes (appendfsync {policy}): if that crashes, "
                "half a minute can be lost",
                f"run `redis-cli -u {shown} CONFIG SET appendfsync everysec` and put it in its configuration",
            )


def _no_log(reading: ServerReading, shown: str) -> Finding:
    advice = f"run `redis-cli -u {shown} CONFIG SET appendonly yes` and put it in its configuration"
    if reading.snapshots is False:
        return Finding.failed(
            "persistence",
            "neither append-only file nor snapshots: a crash or restart loses everything",
            advice,
        )
    saved = datetime.fromtimestamp(int(reading.info.get("rdb_last_save_time", 0)), UTC)
    return Finding.warning(
        "persistence",
        "no append-only file: a crash loses what was done since the last snapshot, "
        f"{roughly(datetime.now(UTC) - saved)} ago",
        advice,
    )


def _memory(info: Mapping[str, Any], shown: str) -> Finding:
    used, limit = int(info.get("used_memory", 0)), int(info.get("maxmemory", 0))
    if not limit:
        return Finding.ok("memory", f"{_size(used)} used, without a limit of its own")
    share = 100 * used / limit
    found = f"{_size(used)} of {_size(limit)} used ({share:.0f} %)"
    advice = (
        f"raise its limit (`redis-cli -u {shown} CONFIG SET maxmemory ...`), or keep ended executions "
        "for a shorter time with TENURE_RETENTION"
    )
    if used >= limit:
        return Finding.failed("memory", f"{found}: nothing new is accepted until there is room", advice)
    if share >= _NEARLY_FULL:
        return Finding.warning("memory", found, advice)
    return Finding.ok("memory", found)


def _clock(reading: ServerReading) -> Finding:
    ahead = reading.ahead
    off = f"{roughly(abs(ahead))} {'ahead of' if ahead > timedelta(0) else 'behind'} this machine's"
    if abs(ahead) - reading.round_trip / 2 > _CLOCK_TOLERANCE:
        return Finding.warning(
            "clock",
            f"the server's clock is {off}; leases and timers go by it, and times given as dates come early "
            "or late",
            "synchronise both clocks (NTP)",
        )
    return Finding.ok("clock", f"the server's clock is {off}")


def _round_trip(took: timedelta, settings: Settings) -> Finding:
    found = f"{took.total_seconds() * 1000:.1f} ms"
    if took > settings.renewal / 2:
        return Finding.failed(
            "round trip",
            f"{found}, too long to renew leases in time",
            "move the server closer, or give longer TENURE_LEASE and TENURE_RENEWAL",
        )
    if took > _SLOW_ROUND_TRIP:
        return Finding.warning(
            "round trip", f"{found}; every task takes at least one", "run workers closer to the server"
        )
    return Finding.ok("round trip", found)


def _size(count: int) -> str:
    size = float(count)
    for unit in ("B", "KiB", "MiB"):
        if size < 1024:  # noqa: PLR2004  # the next unit
            return f"{size:.3g} {unit}"
        size /= 1024
    return f"{size:.1f} GiB"
