"""Every command of compose.yaml, run as a plain process with its environment, against a real server.

No Docker is needed, and none is tested: what is tested is that the commands and variables are right, fit each
other, and end well when Compose stops them.
"""

from __future__ import annotations

import base64
import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import closing
from dataclasses import dataclass
from http.client import HTTPConnection
from pathlib import Path
from typing import Any, Final

import pytest
import redis
from ruamel.yaml import YAML

from tenure.embedded.binary import server_binary
from tenure.store.connection import check_server, connect
from tenure.wiring import open_store
from tests.dashboard.conftest import free_port
from tests.waiting import wait_until

ROOT: Final = Path(__file__).parents[2]
FOLDER: Final = ROOT / "docker"
COMPOSE: Final = YAML(typ="safe").load(FOLDER / "compose.yaml")
SERVICES: Final[dict[str, dict[str, Any]]] = COMPOSE["services"]
#: What whoever runs Compose must set, or may.
GIVEN: Final = {"TENURE_DASHBOARD_PASSWORD": "secret"}


def interpolated(text: str) -> str:
    """As Compose replaces variables: `${NAME:-default}` and `${NAME:?what to do}`."""

    def value(match: re.Match[str]) -> str:
        name, operator, word = match.groups()
        if name in GIVEN:
            return GIVEN[name]
        assert operator == ":-", f"{name}: {word}"
        return str(word)

    return re.sub(r"\$\{(\w+)(:[-?])([^}]*)\}", value, text)


def replicas(service: str) -> int:
    return int(SERVICES[service].get("deploy", {}).get("replicas", 1))


@dataclass(frozen=True)
class Composition:
    """Where the services are here, and what runs of them."""

    folder: Path
    server: int
    dashboard: int
    running: dict[str, subprocess.Popen[bytes]]

    @property
    def url(self) -> str:
        return f"redis://127.0.0.1:{self.server}/0"

    def command(self, service: str) -> list[str]:
        words = [interpolated(str(word)) for word in SERVICES[service]["command"]]
        if words[0] == "valkey-server":
            placed = ["--bind", "127.0.0.1", "--port", str(self.server), "--dir", str(self.folder)]
            return [str(server_binary()), *words[1:], *placed]
        return [str(self.dashboard) if word == "9181" else word for word in words]

    def environment(self, service: str) -> Mapping[str, str]:
        """What Compose gives it, and where this test's programs are."""
        given = {
            name: interpolated(str(value)) for name, value in SERVICES[service].get("environment", {}).items()
        }
        if "TENURE_REDIS_URL" in given:
            assert given["TENURE_REDIS_URL"] == "redis://valkey:6379/0"
            given["TENURE_REDIS_URL"] = self.url
        kept = {name: os.environ[name] for name in ("HOME", "LANG", "PYTHONPATH") if name in os.environ}
        return {**kept, "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}", **given}

    def start(self, service: str) -> None:
        for number in range(1, replicas(service) + 1):
            with self.log(f"{service}-{number}").open("wb") as output:
                self.running[f"{service}-{number}"] = subprocess.Popen(
                    self.command(service),
                    cwd=FOLDER,
                    env=self.environment(service),
                    stdin=subprocess.DEVNULL,
                    stdout=output,
                    stderr=output,
                    start_new_session=True,
                )

    def log(self, name: str) -> Path:
        return self.folder / f"{name}.log"

    def until(self, what: str, predicate: Any) -> None:
        """Wait until it holds; whatever runs must go on running."""

        def holds() -> bool:
            ended = {
                name: self.log(name).read_text() for name, p in self.running.items() if p.poll() is not None
            }
            assert ended == {}, f"before {what}"
            return bool(predicate())

        wait_until(holds, 60, what)

    def stop(self, name: str) -> int:
        """As Compose stops it."""
        process = self.running.pop(name)
        process.send_signal(signal.SIGTERM)
        return process.wait(60)


@pytest.fixture
def composition(tmp_path: Path) -> Iterator[Composition]:
    one = Composition(tmp_path, free_port(), free_port(), {})
    yield one
    for process in one.running.values():
        process.kill()
        process.wait()


def answers(client: redis.Redis) -> bool:
    try:
        return bool(client.ping())
    except redis.ConnectionError:
        return False


def status(port: int, **headers: str) -> int | None:
    with closing(HTTPConnection("127.0.0.1", port, timeout=10)) as connection:
        try:
            connection.request("GET", "/0/data/queues.json", headers=headers)
            return connection.getresponse().status
        except ConnectionRefusedError:
            return None


def test_every_command_runs_until_it_is_stopped(composition: Composition) -> None:
    services = [name for name in SERVICES if "profiles" not in SERVICES[name]]
    assert services == ["valkey", "scheduler", "small", "large", "dashboard"]

    composition.start("valkey")
    with closing(connect(composition.url)) as client:
        composition.until("the server answers", lambda: answers(client))
        check_server(client, composition.url)
        settings: Any = client.config_get("appendonly", "maxmemory-policy")
        assert settings == {"appendonly": "yes", "maxmemory-policy": "noeviction"}

    for service in services[1:]:
        composition.start(service)
    with open_store(composition.url) as store:
        pools = [pool for pool in ("small", "large") for _ in range(replicas(pool))]
        composition.until(
            "all workers are ready",
            lambda: sorted(s.pool for s in store.sessions.list() if s.state == "ready") == sorted(pools),
        )
    composition.until("the dashboard asks who comes", lambda: status(composition.dashboard) == 401)
    login = base64.b64encode(f"tenure:{GIVEN['TENURE_DASHBOARD_PASSWORD']}".encode()).decode()
    assert status(composition.dashboard, Authorization=f"Basic {login}") == 200

    app = subprocess.run(
        composition.command("app"),
        cwd=FOLDER,
        env=composition.environment("app"),
        capture_output=True,
        text=True,
        timeout=90,
        check=False,
    )
    assert (app.returncode, app.stdout) == (0, "6 words in 3 sentences\n"), app.stderr

    codes = {name: composition.stop(name) for name in reversed(list(composition.running))}
    logs = {name: composition.log(name).read_text() for name in codes if codes[name] != 0}
    assert logs == {}
    assert len(codes) == sum(map(replicas, services))


def test_there_are_two_schedulers_and_pools_with_replicas() -> None:
    assert {name: replicas(name) for name in ("scheduler", "small", "large")} == {
        "scheduler": 2,
        "small": 2,
        "large": 2,
    }


def test_workers_may_finish_what_they_run_before_they_are_killed() -> None:
    """The drain budget is 30 s by default; Compose kills after `stop_grace_period`."""
    assert {SERVICES[name]["stop_grace_period"] for name in ("small", "large")} == {"45s"}


def test_everything_waits_for_a_server_that_is_healthy() -> None:
    for name in SERVICES.keys() - {"valkey"}:
        assert SERVICES[name]["depends_on"] == {"valkey": {"condition": "service_healthy"}}


def test_the_image_copies_what_it_is_built_from() -> None:
    """A path that is not there, or that the ignore file leaves out, would fail the build."""
    dockerfile = (FOLDER / "Dockerfile").read_text()
    sources = [
        word
        for line in re.findall(r"^COPY (?!--from)(.*)$", dockerfile, flags=re.MULTILINE)
        for word in line.split()[:-1]
    ]
    assert len(sources) == 8
    allowed = (FOLDER / "Dockerfile.dockerignore").read_text().splitlines()
    for source in sources:
        assert (ROOT / source).exists(), source
        assert f"!{source}" in allowed
    for service in SERVICES.values():
        if "build" in service:
            assert (FOLDER / service["build"]["context"]).resolve() == ROOT
            assert (ROOT / service["build"]["dockerfile"]).is_file()


def test_the_image_runs_as_nobody_in_particular() -> None:
    dockerfile = (FOLDER / "Dockerfile").read_text()
    last_stage = dockerfile.rpartition("\nFROM ")[2]
    assert re.search(r"^USER 10001:10001$", last_stage, flags=re.MULTILINE)
    assert dockerfile.count("\nFROM ") == 2
