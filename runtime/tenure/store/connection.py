"""Connecting to a server, and refusing one that could lose or delay what it is given.

The client never sends a command twice by itself: only `scripts.py` knows which step may be sent again, and
how often.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Final
from urllib.parse import urlsplit

import redis
import redis.exceptions as failures
from redis.backoff import NoBackoff
from redis.retry import Retry

from tenure.errors import InvalidInput, StoreUnreachable, UnsuitableServer
from tenure.store import sentinel

OLDEST_VERSION: Final = (7, 0)

_SCHEMES: Final = frozenset({"redis", "rediss", "unix", sentinel.SCHEME})
_HEALTH_CHECK_SECONDS: Final = 30


@dataclass(frozen=True, slots=True)
class ServerFacts:
    """What a suitable server says about itself. The run id changes whenever it starts again."""

    run_id: str
    version: str


def connect(url: str, *, client_name: str | None = None, socket_timeout: float | None = 5.0) -> redis.Redis:
    """A client for `redis://`, `rediss://`, `unix://` or `sentinel://` (see `tenure.store.sentinel`).

    Nothing is sent before its first command.

    `socket_timeout`, in seconds, bounds connecting and each answer; a blocking command must be shorter.
    Raises InvalidInput if the URL cannot be read.
    """
    scheme = _scheme(url)
    options: dict[str, Any] = {
        "client_name": client_name,
        "socket_timeout": socket_timeout,
        "socket_connect_timeout": socket_timeout,
        # An idle connection is tried with a PING before a command is risked on it.
        "health_check_interval": _HEALTH_CHECK_SECONDS,
        "retry": Retry(NoBackoff(), 0),
        "decode_responses": False,
    }
    try:
        if scheme == sentinel.SCHEME:
            return sentinel.primary_of(sentinel.SentinelAddress.parse(url), **options)
        _check_path(scheme, url)
        return redis.Redis.from_url(url, **options)
    except (ValueError, TypeError) as error:
        raise InvalidInput(f"server URL {without_password(url)!r} cannot be read: {error}") from error


@contextmanager
def reaching() -> Iterator[None]:
    """Turn what redis-py raises when no answer comes into `StoreUnreachable`; a decorator too, for reads.

    A read is not sent again here: whoever asked knows whether to ask once more.
    """
    try:
        yield
    except (failures.ConnectionError, failures.TimeoutError) as error:
        raise _unreachable(error) from error
    except failures.ResponseError as error:
        # How a primary answers who waits for something when it becomes a replica.
        if not str(error).startswith("UNBLOCKED"):
            raise
        raise _unreachable(error) from error


def _unreachable(error: Exception) -> StoreUnreachable:
    return StoreUnreachable(
        f"the server does not answer ({error}); nothing was changed, try again when it does"
    )


def check_server(client: redis.Redis, url: str) -> ServerFacts:
    """Ask the server what it is, and refuse it if it does not suit.

    Raises StoreUnreachable or UnsuitableServer; the message says what to change.
    """
    shown = without_password(url)
    try:
        return judge_server(client.info(), url)
    except redis.AuthenticationError as error:
        raise StoreUnreachable(
            f"the server at {shown} refuses the user name or password: {error}; correct them in the URL"
        ) from error
    except (redis.ConnectionError, redis.TimeoutError) as error:
        raise StoreUnreachable(
            f"no server answers at {shown}: {error}; start it, correct the URL (flag or TENURE_REDIS_URL), "
            "or give no URL to use the embedded server"
        ) from error
    except redis.ResponseError as error:
        raise UnsuitableServer(
            f"the server at {shown} does not say what it is: {error}; allow its user the INFO command"
        ) from error


def judge_server(info: Mapping[str, Any], url: str) -> ServerFacts:
    """Read the answer to INFO; UnsuitableServer if the server must not be used.

    Valkey reports the Redis version it is compatible with as `redis_version`.
    INFO serves where managed services forbid CONFIG.
    """
    shown = without_password(url)
    version = str(info.get("redis_version", ""))
    if _version_number(version) < OLDEST_VERSION:
        raise UnsuitableServer(
            f"the server at {shown} is version {version or 'unknown'}; "
            "use Redis 7.0 or newer, or Valkey 7.2 or newer"
        )
    mode = info.get("redis_mode", "standalone")
    if mode != "standalone" or info.get("cluster_enabled"):
        raise UnsuitableServer(
            f"the server at {shown} runs in {mode} mode, which RQ's keys do not allow; "
            "use a single primary, with replicas if you like"
        )
    policy = info.get("maxmemory_policy", "noeviction")
    if policy != "noeviction":
        raise UnsuitableServer(
            f"the server at {shown} may evict keys (maxmemory-policy {policy}), which loses executions; run "
            f"`redis-cli -u {shown} CONFIG SET maxmemory-policy noeviction` and put it in its configuration"
        )
    return ServerFacts(run_id=str(info["run_id"]), version=version)


def without_password(url: str) -> str:
    """The URL as it may be shown, readable or not."""
    shown = re.sub(r"(://[^:@/]*)?:(?!//)[^@]*@", r"\1:***@", url)
    return re.sub(r"(?<=password=)[^&]*", "***", shown)


def was_never_sent(error: Exception) -> bool:
    """Whether a command that ended so cannot have reached the server."""
    return isinstance(error, sentinel.NoPrimary) or "connecting to" in str(error)


def _scheme(url: str) -> str:
    scheme, separator, _ = url.partition("://")
    if not separator or scheme not in _SCHEMES:
        raise InvalidInput(
            f"server URL {without_password(url)!r} must begin with redis://, rediss://, unix:// or "
            f"sentinel://, for example redis://localhost:6379/0 or {sentinel.EXAMPLE}"
        )
    return scheme


def _check_path(scheme: str, url: str) -> None:
    path = urlsplit(url).path
    # The client takes an unreadable database number for 0.
    if scheme != "unix" and not re.fullmatch(r"/?\d*", path):
        raise ValueError(f"it names database {path[1:]!r}, which must be a number")
    if scheme == "unix" and not path:
        raise ValueError("it names no socket, for example unix:///run/redis.sock")


def _version_number(version: str) -> tuple[int, ...]:
    """The first two parts as numbers; (0, 0) if there are none, so that an odd server is refused."""
    match = re.match(r"(\d+)\.(\d+)", version)
    return (int(match[1]), int(match[2])) if match else (0, 0)
