"""Which servers and URLs are refused, and what the refusal says."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
import redis

from tenure.embedded import EmbeddedServer
from tenure.errors import InvalidInput, StoreUnreachable, UnsuitableServer
from tenure.store.connection import check_server, connect, judge_server, without_password

URL = "redis://ada:secret@db.example:6379/0"


@pytest.fixture
def info(redis_client: redis.Redis) -> dict[str, Any]:
    """What a real server answers, to be edited."""
    return dict(redis_client.info())


@pytest.fixture
def own_server(tmp_path: Path) -> Iterator[EmbeddedServer]:
    """A server whose settings a test may change."""
    with EmbeddedServer.attach(tmp_path / "own") as server:
        yield server


def test_the_embedded_server_suits(redis_client: redis.Redis, url: str) -> None:
    facts = check_server(redis_client, url)

    assert facts.run_id == redis_client.info("server")["run_id"]
    assert facts.version.startswith("7.")


def test_an_evicting_server_is_refused_with_the_command_that_changes_it(own_server: EmbeddedServer) -> None:
    with closing(connect(own_server.url)) as client:
        client.config_set("maxmemory-policy", "allkeys-lru")
        with pytest.raises(UnsuitableServer, match="CONFIG SET maxmemory-policy noeviction"):
            check_server(client, own_server.url)

        client.config_set("maxmemory-policy", "noeviction")
        assert check_server(client, own_server.url).run_id


@pytest.mark.parametrize("policy", ["volatile-ttl", "volatile-lru", "allkeys-random"])
def test_every_evicting_policy_is_refused(info: dict[str, Any], policy: str) -> None:
    info["maxmemory_policy"] = policy

    with pytest.raises(UnsuitableServer, match=policy):
        judge_server(info, URL)


@pytest.mark.parametrize("version", ["6.2.14", "5.0", "", "unknown"])
def test_a_server_before_7_is_refused(info: dict[str, Any], version: str) -> None:
    info["redis_version"] = version

    with pytest.raises(UnsuitableServer, match=r"use Redis 7\.0 or newer"):
        judge_server(info, URL)


@pytest.mark.parametrize("version", ["7.0.0", "7.2.4", "8.2.3", "10.0"])
def test_a_server_from_7_on_suits(info: dict[str, Any], version: str) -> None:
    info["redis_version"] = version

    assert judge_server(info, URL).version == version


@pytest.mark.parametrize(
    "change", [{"redis_mode": "cluster"}, {"cluster_enabled": 1}, {"redis_mode": "sentinel"}]
)
def test_anything_but_a_single_primary_is_refused(info: dict[str, Any], change: dict[str, Any]) -> None:
    with pytest.raises(UnsuitableServer, match="single primary"):
        judge_server(info | change, URL)


def test_nobody_answering_is_reported_without_the_password() -> None:
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        url = f"redis://ada:secret@127.0.0.1:{unused.getsockname()[1]}/0"
        with closing(connect(url)) as client, pytest.raises(StoreUnreachable) as caught:
            check_server(client, url)

    assert "redis://ada:***@127.0.0.1" in str(caught.value)
    assert "TENURE_REDIS_URL" in str(caught.value)
    assert "secret" not in str(caught.value)


def test_a_server_that_never_answers_is_unreachable() -> None:
    with socket.socket() as silent:
        silent.bind(("127.0.0.1", 0))
        silent.listen()
        url = f"redis://127.0.0.1:{silent.getsockname()[1]}"
        with closing(connect(url, socket_timeout=0.1)) as client, pytest.raises(StoreUnreachable):
            check_server(client, url)


def test_a_wrong_password_is_reported(own_server: EmbeddedServer) -> None:
    with closing(connect(own_server.url)) as admin:
        admin.config_set("requirepass", "secret")
        with closing(connect(own_server.url)) as client, pytest.raises(StoreUnreachable, match="password"):
            check_server(client, own_server.url)


def test_a_user_without_info_is_told_what_to_allow(own_server: EmbeddedServer) -> None:
    with closing(connect(own_server.url)) as admin:
        admin.execute_command("ACL", "SETUSER", "limited", "on", "nopass", "~*", "+@all", "-info")
        url = own_server.url.replace("unix://", "unix://limited:any@")
        with closing(connect(url)) as client, pytest.raises(UnsuitableServer, match="INFO"):
            check_server(client, url)


@pytest.mark.parametrize(
    "url",
    [
        "",
        "localhost:6379",
        "http://localhost",
        "redis:/localhost",
        "redis://localhost:port",
        "redis://localhost/database",
        "redis://[::1",
        "unix://",
        "REDIS://localhost",
    ],
)
def test_an_unreadable_url_is_refused(url: str) -> None:
    with pytest.raises(InvalidInput, match="server URL"):
        connect(url)


@pytest.mark.parametrize(
    ("url", "shown"),
    [
        ("redis://localhost:6379/0", "redis://localhost:6379/0"),
        ("redis://ada@localhost:6379", "redis://ada@localhost:6379"),
        ("redis://:secret@localhost", "redis://:***@localhost"),
        ("rediss://ada:se/cr:et@localhost:6379/1", "rediss://ada:***@localhost:6379/1"),
        ("ada:secret@localhost", "ada:***@localhost"),
        ("unix:///run/s?db=1&password=secret", "unix:///run/s?db=1&password=***"),
    ],
)
def test_a_url_is_shown_without_its_password(url: str, shown: str) -> None:
    assert without_password(url) == shown


def test_a_client_is_named_and_sends_nothing_twice(url: str) -> None:
    with closing(connect(url, client_name="named")) as client:
        assert client.client_getname() == "named"
        assert client.get_connection_kwargs()["retry"].get_retries() == 0
        assert client.get_connection_kwargs()["decode_responses"] is False
