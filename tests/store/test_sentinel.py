"""A Sentinel names the primary: its URL, failover, and what must not be taken for an answer or a primary."""

from __future__ import annotations

import signal
import socket
import threading
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from tenure.errors import InvalidInput, StoreUnreachable, Unconfirmed
from tenure.settings import Settings
from tenure.store.connection import check_server, connect, reaching, without_password
from tenure.store.sentinel import NoPrimary, SentinelAddress
from tenure.wiring import open_store
from tests.sentinels import SERVICE, Watched
from tests.waiting import wait_until


@pytest.fixture
def watched(tmp_path: Path) -> Iterator[Watched]:
    with Watched(tmp_path) as nodes:
        yield nodes


@pytest.mark.parametrize(
    ("url", "hosts", "service", "db"),
    [
        ("sentinel://one/mymaster", [("one", 26379)], "mymaster", 0),
        ("sentinel://one:1,[::1]:2,three/m/4", [("one", 1), ("::1", 2), ("three", 26379)], "m", 4),
        ("sentinel://ada:se%40cr:et@one/m/", [("one", 26379)], "m", 0),
    ],
)
def test_a_url_names_sentinels_a_service_and_a_database(
    url: str, hosts: list[tuple[str, int]], service: str, db: int
) -> None:
    address = SentinelAddress.parse(url)

    assert (list(address.hosts), address.service, address.db) == (hosts, service, db)


def test_a_url_has_the_servers_password_and_the_sentinels_own() -> None:
    url = "sentinel://ada:s%40:1@one,two/m?sentinel_username=eve&sentinel_password=s2"
    address = SentinelAddress.parse(url)

    assert (address.username, address.password) == ("ada", "s@:1")
    assert (address.sentinel_username, address.sentinel_password) == ("eve", "s2")
    assert without_password(url) == (
        "sentinel://ada:***@one,two/m?sentinel_username=eve&sentinel_password=***"
    )
    assert "s@:1" not in repr(address)


@pytest.mark.parametrize(
    ("url", "says"),
    [
        ("sentinel://one", "sentinel://localhost:26379/mymaster/0"),
        ("sentinel:///mymaster", "look like"),
        ("sentinel://one/mymaster/zero", "look like"),
        ("sentinel://one,,two/mymaster", "host:port"),
        ("sentinel://one:99999/mymaster", "host:port"),
        ("sentinel://one/mymaster?ssl=true", "'ssl'.*sentinel_password"),
    ],
)
def test_an_unreadable_url_is_refused(url: str, says: str) -> None:
    with pytest.raises(InvalidInput, match=says):
        connect(url)


def test_no_sentinel_answering_is_unreachable_and_names_no_password() -> None:
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        url = f"sentinel://:secret@127.0.0.1:{unused.getsockname()[1]}/m?sentinel_password=hidden"
        with closing(connect(url)) as client, pytest.raises(StoreUnreachable) as caught:
            check_server(client, url)

    assert "no sentinel names a primary" in str(caught.value)
    assert "secret" not in str(caught.value)
    assert "hidden" not in str(caught.value)


def test_an_unknown_service_is_unreachable(watched: Watched) -> None:
    url = watched.url.replace(SERVICE, "other")
    with closing(connect(url)) as client, pytest.raises(StoreUnreachable, match="no service 'other'"):
        check_server(client, url)


def test_one_sentinel_of_several_is_enough(watched: Watched) -> None:
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        url = watched.url.replace("://", f"://127.0.0.1:{unused.getsockname()[1]},")
        with closing(connect(url)) as client:
            assert check_server(client, url).run_id


def test_after_a_failover_the_same_client_reaches_the_new_primary(watched: Watched, namespace: str) -> None:
    with (
        open_store(watched.url, namespace=namespace) as store,
        closing(connect(watched.url, client_name="named")) as client,
    ):
        assert client.client_getname() == "named"
        before = store.run_id()
        store.sessions.view()
        watched.primary.kill()

        # Resent until there is a primary again, which knows none of our scripts.
        assert store.scripts.call("scan", {"index": "live", "limit": 1, "after": 0, "due": None})
        assert store.run_id() != before
        assert client.client_getname() == "named"


def test_a_request_that_no_primary_was_there_for_was_not_sent(watched: Watched, namespace: str) -> None:
    """G16: unconfirmed is only what may have arrived."""
    settings = Settings.from_environment({"TENURE_RESEND": "0.3"})
    with open_store(watched.url, namespace=namespace, settings=settings) as store:
        watched.replica.kill()
        watched.primary.kill()
        arguments = {"index": "live", "limit": 1, "after": 0, "due": None}
        with pytest.raises((StoreUnreachable, Unconfirmed)):
            store.scripts.call("scan", arguments)  # its connection breaks: this one may have arrived
        with watched.sentinel.asking() as sentinel:
            wait_until(
                lambda: sentinel.sentinel_masters()[SERVICE]["is_sdown"], 10, "the Sentinel has noticed"
            )
        with pytest.raises(StoreUnreachable, match="was not sent"):
            store.scripts.call("scan", arguments)


def test_a_replica_that_a_sentinel_still_names_is_not_taken_for_the_primary(watched: Watched) -> None:
    with closing(connect(watched.url)) as client, watched.primary.asking() as primary:
        watched.sentinel.kill()
        watched.sentinel.configuration = (
            f"sentinel monitor {SERVICE} 127.0.0.1 {watched.replica.port} 1\n"
            # It would find out what it watches, and correct itself.
            f"sentinel down-after-milliseconds {SERVICE} 60000"
        )
        (watched.sentinel.folder / "configuration").unlink()
        watched.sentinel.start()

        with pytest.raises(NoPrimary, match="is a replica"):
            client.set("key", "value")
        with pytest.raises(StoreUnreachable), reaching():
            client.get("key")
        assert primary.get("key") is None


class Interrupted(Exception):
    """What a signal raises in the middle of a read."""


def test_an_answer_that_nobody_waited_for_is_not_taken_for_the_next(watched: Watched) -> None:
    """redis-py keeps a Sentinel connection after such an error, with the answer still to come."""

    def interrupt(_number: int, _frame: object) -> None:
        raise Interrupted

    before = signal.signal(signal.SIGALRM, interrupt)
    try:
        with closing(connect(watched.url)) as client, closing(connect(watched.url)) as other:
            client.set("key", "value")
            signal.setitimer(signal.ITIMER_REAL, 0.2)
            with pytest.raises(Interrupted):
                client.blpop(["list"], timeout=4)
            other.rpush("list", "late")
            assert client.get("key") == b"value"
            assert other.lrange("list", 0, -1) == [b"late"]
    finally:
        signal.signal(signal.SIGALRM, before)


def test_whoever_waits_on_a_primary_that_is_demoted_is_told_to_try_again(watched: Watched) -> None:
    """The server ends a block when its role changes. That is no answer, and no bug."""
    with closing(connect(watched.url)) as client, closing(connect(watched.url)) as other:
        number = client.client_id()

        def unblock() -> None:
            wait_until(lambda: other.client_unblock(number, error=True), 5, "it waits, and is unblocked")

        thread = threading.Thread(target=unblock)
        thread.start()
        with pytest.raises(StoreUnreachable, match="UNBLOCKED"), reaching():
            client.blpop(["list"], timeout=4)
        thread.join()
