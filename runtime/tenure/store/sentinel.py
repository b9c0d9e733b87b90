"""Reaching the primary that Redis Sentinel names, before and after a failover.

    sentinel://[user[:password]@]host[:port][,host[:port]...]/service[/db]

User and password are those of the servers. Sentinels that ask for some of their own get them as
`?sentinel_username=...&sentinel_password=...`.

Each new connection asks the sentinels where the primary is and makes sure that it got there, as Redis asks of
clients (https://redis.io/docs/latest/develop/reference/sentinel-clients/): between a failover and its news, a
sentinel may still name a server that has been demoted.
"""

from __future__ import annotations

import re
import threading
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Final
from urllib.parse import parse_qsl, unquote

import redis
from redis.sentinel import MasterNotFoundError, Sentinel, SentinelManagedConnection

SCHEME: Final = "sentinel"
EXAMPLE: Final = "sentinel://localhost:26379/mymaster/0"

_PORT: Final = 26379
# Each sentinel that is away costs this much at most before the next one is asked.
_TIMEOUT_SECONDS: Final = 1.0
_URL: Final = re.compile(
    r"sentinel://(?:(?P<user>[^:@/]*)(?::(?P<password>.*))?@)?"
    r"(?P<hosts>[^@/?]+)/(?P<service>[^/?]+)(?:/(?P<db>\d*))?/?(?:\?(?P<options>.*))?"
)
_HOST: Final = re.compile(r"(?P<host>\[[0-9A-Fa-f:.]+\]|[^\[\]:]+)(?::(?P<port>\d+))?")
_OPTIONS: Final = frozenset({"sentinel_username", "sentinel_password"})


@dataclass(frozen=True, slots=True)
class SentinelAddress:
    """What a `sentinel://` URL says."""

    hosts: tuple[tuple[str, int], ...]
    service: str
    db: int
    username: str | None = field(repr=False)
    password: str | None = field(repr=False)
    sentinel_username: str | None = field(repr=False)
    sentinel_password: str | None = field(repr=False)

    @classmethod
    def parse(cls, url: str) -> SentinelAddress:
        """Read a URL; ValueError says what is wrong with it."""
        match = _URL.fullmatch(url)
        if match is None:
            raise ValueError(f"it must look like {EXAMPLE}")
        options = dict(parse_qsl(match["options"] or "", keep_blank_values=True))
        if unknown := sorted(options.keys() - _OPTIONS):
            raise ValueError(f"it has the option {unknown[0]!r}; there are {', '.join(sorted(_OPTIONS))}")
        return cls(
            hosts=tuple(_host(text) for text in match["hosts"].split(",")),
            service=unquote(match["service"]),
            db=int(match["db"] or 0),
            username=unquote(match["user"] or "") or None,
            password=unquote(match["password"] or "") or None,
            sentinel_username=options.get("sentinel_username"),
            sentinel_password=options.get("sentinel_password"),
        )


def primary_of(address: SentinelAddress, **connection: Any) -> redis.Redis:
    """A client of the service's primary, whichever server that is. Nothing is sent before its first command.

    `connection` are redis-py's arguments for connections to the servers.
    """
    sentinels = _Sentinels(
        address.hosts,
        sentinel_kwargs={
            "username": address.sentinel_username,
            "password": address.sentinel_password,
            "socket_timeout": _TIMEOUT_SECONDS,
            "socket_connect_timeout": _TIMEOUT_SECONDS,
            "retry": connection.get("retry"),
        },
    )
    client: redis.Redis = sentinels.master_for(  # type: ignore[no-untyped-call]  # redis-py's
        address.service,
        connection_class=_PrimaryConnection,
        db=address.db,
        username=address.username,
        password=address.password,
        **connection,
    )
    return client


class NoPrimary(MasterNotFoundError):
    """No sentinel names a primary, or the one that it names is none. Nothing was sent."""


class _Sentinels(Sentinel):
    """One look-up at a time, since redis-py loses a sentinel if two threads look. Leaves no connection."""

    def __init__(self, hosts: Sequence[tuple[str, int]], **options: Any) -> None:
        super().__init__(hosts, **options)  # type: ignore[no-untyped-call]  # redis-py's
        self._looking = threading.Lock()

    def discover_master(self, service_name: str) -> tuple[str, int]:
        """The primary's address, from the first sentinel that knows it."""
        complaints = []
        with self._looking:
            for place, one in enumerate(self.sentinels):
                try:
                    states: Any = one.sentinel_masters()
                except redis.RedisError as error:
                    complaints.append(str(error))
                    continue
                finally:
                    one.close()
                state = states.get(service_name)
                if state and self.check_master_state(state, service_name):  # type: ignore[no-untyped-call]
                    self.sentinels.insert(0, self.sentinels.pop(place))
                    return state["ip"], state["port"]
                complaints.append("its primary is down" if state else f"it knows no service {service_name!r}")
        raise NoPrimary(f"no sentinel names a primary: {'; '.join(complaints)}")


class _PrimaryConnection(SentinelManagedConnection):
    """A connection that is dropped at any error, and refuses to be one to a replica.

    redis-py keeps a Sentinel connection after an error while reading, unlike every other. An answer that
    comes later is then taken for that to the next command
    (https://github.com/redis/redis-py/pull/4292).
    """

    def read_response(
        self,
        disable_decoding: Any = False,  # noqa: FBT002  # redis-py's signature
        *,
        disconnect_on_error: bool | None = True,
        **options: Any,
    ) -> Any:
        return super().read_response(disable_decoding, disconnect_on_error=disconnect_on_error, **options)

    def connect_to(self, address: tuple[str, int]) -> None:
        super().connect_to(address)  # type: ignore[no-untyped-call]  # redis-py's
        # Typed as if replies were text; without a handshake (RESP2) there is no role to look at.
        handshake: Any = self.handshake_metadata or {}
        role = handshake.get(b"role", b"master")
        if role != b"master":
            self.disconnect()  # type: ignore[no-untyped-call]  # redis-py's
            host, port = address
            raise NoPrimary(f"{host}:{port}, which a sentinel names as primary, is a {role.decode()}")


def _host(text: str) -> tuple[str, int]:
    match = _HOST.fullmatch(text.strip())
    if match is None or int(match["port"] or _PORT) > 65535:  # noqa: PLR2004  # the last port there is
        raise ValueError(f"{text!r} is no sentinel's host:port")
    return match["host"].strip("[]"), int(match["port"] or _PORT)
