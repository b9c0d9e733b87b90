"""`tenure dashboard`: what it refuses, who it lets in, and how it ends."""

from __future__ import annotations

import base64
import signal
import socket
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from tenure.cli import cli
from tests.dashboard.conftest import Dashboard, begin
from tests.processes import Site
from tests.servers import RestartableServer


def run(*words: str) -> Result:
    return CliRunner(env={"TENURE_REDIS_URL": "redis://127.0.0.1:1"}).invoke(cli, ["dashboard", *words])


@pytest.mark.parametrize("bind", ["0.0.0.0", "::", "192.0.2.1", "host.example"])  # noqa: S104  # what is refused
def test_an_address_that_others_reach_needs_a_login(bind: str) -> None:
    done = run("--bind", bind)
    assert done.exit_code == 2
    assert "--username and --password, or --insecure" in done.stderr
    # Past the check: the next thing is the server, which does not answer.
    assert run("--bind", bind, "--insecure").exit_code == 5
    assert run("--bind", bind, "--username", "u", "--password", "p").exit_code == 5


@pytest.mark.parametrize("bind", ["127.0.0.1", "127.8.8.8", "::1", "localhost"])
def test_loopback_needs_none(bind: str) -> None:
    assert run("--bind", bind).exit_code == 5


@pytest.mark.parametrize(
    "half", [("--username", "u"), ("--password", "p"), ("--username", "u", "--password", "")]
)
def test_half_a_login_is_refused(half: tuple[str, ...]) -> None:
    done = run(*half)
    assert done.exit_code == 2
    assert "go together" in done.stderr


@pytest.mark.parametrize("name", ["rq_dashboard", "six"])
def test_without_the_extra_it_names_the_command_that_installs_it(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, name, None)
    done = run()
    assert done.exit_code == 1
    assert done.stderr == (
        f"Error: the dashboard is not installed ({name} is missing); run: pip install 'tenure[dashboard]'\n"
    )


def test_a_login_is_asked_for_on_every_page(site: Site) -> None:
    one = begin(site, "--bind", "0.0.0.0", "--username", "ä", "--password", "s:e")  # noqa: S104  # with a login

    def basic(text: str) -> str:
        return f"Basic {base64.b64encode(text.encode()).decode()}"

    for path in ("/", "/0/data/queues.json", "/static/favicon.ico", "/nothing"):
        assert one.get(path).status == 401
        assert one.get(path, Authorization=basic("ä:wrong")).status == 401
        assert one.get(path, Authorization=basic("a:s:e")).status == 401
    assert one.press("/queue/q/queued/empty").status == 401
    assert one.get("/", Authorization=basic("ä:s:e")).status == 200


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_ends_it_well(number: signal.Signals, dashboard: Dashboard) -> None:
    assert dashboard.get("/").status == 200
    dashboard.process.signal(number)
    assert dashboard.process.wait() == 0


def test_a_port_that_is_taken_is_named(site: Site) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        process = site.run("second", "dashboard", "--port", str(port))
        assert process.wait() == 1
    log = process.log.read_text()
    assert log.startswith(f"Error: 127.0.0.1:{port} cannot be listened on: ")
    assert "--port" in log
    assert "Traceback" not in log


def test_it_waits_for_a_server_that_is_away(tmp_path: Path) -> None:
    with RestartableServer(tmp_path / "data") as server, Site(server.url, "away", tmp_path) as site:
        one = begin(site)
        assert one.get("/0/data/queues.json").status == 200
        server.kill()
        away = one.get("/0/data/queues.json")
        assert away.status == 503
        assert "does not answer" in away.body
        assert one.get("/static/favicon.ico").status == 200
        server.start()
        assert one.get("/0/data/queues.json").status == 200
        assert "Traceback" not in one.process.log.read_text()
