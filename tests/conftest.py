"""One embedded server for the whole run, and a namespace of its own for each test."""

from __future__ import annotations

import secrets
from collections.abc import Generator, Iterator
from contextlib import closing
from pathlib import Path

import pytest
import redis
from hypothesis import HealthCheck, settings

from tenure.embedded import EmbeddedServer
from tenure.store.connection import connect
from tests.processes import Site

# The same examples each time, and none judged by how long a busy machine takes: what fails here fails again.
settings.register_profile(
    "everyday", deadline=None, derandomize=True, database=None, suppress_health_check=[HealthCheck.too_slow]
)
settings.load_profile("everyday")


@pytest.fixture(scope="session")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[EmbeddedServer]:
    with EmbeddedServer.attach(tmp_path_factory.mktemp("server")) as attached:
        yield attached


@pytest.fixture
def url(server: EmbeddedServer) -> str:
    return server.url


@pytest.fixture
def redis_client(url: str) -> Iterator[redis.Redis]:
    with closing(connect(url, client_name="test")) as client:
        yield client


@pytest.fixture
def namespace(redis_client: redis.Redis) -> Iterator[str]:
    """A namespace nobody else uses; its keys, and RQ's keys for it, go when the test ends."""
    name = f"t{secrets.token_hex(4)}"
    yield name
    for pattern in (f"{name}:*", f"rq:queue:{name}-*", f"rq:job:{name}-*"):
        for key in redis_client.scan_iter(match=pattern, count=1000):
            redis_client.unlink(key)


@pytest.fixture
def site(url: str, namespace: str, tmp_path: Path) -> Iterator[Site]:
    """A namespace with real processes; whatever the test started is killed when it ends."""
    with Site(url, namespace, tmp_path) as one:
        yield one


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport() -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Captured logs may have what no encoding does; processes that share the tests send each other UTF-8."""
    report = yield
    report.sections = [
        (name, text.encode("utf-8", "backslashreplace").decode()) for name, text in report.sections
    ]
    return report
