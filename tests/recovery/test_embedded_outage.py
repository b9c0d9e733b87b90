"""The embedded server is killed while processes work on it: they bring it back themselves and go on."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from tenure import ExecutionFailed
from tenure.embedded import EmbeddedServer
from tests.jobs import ledger, work
from tests.processes import Site

LIMIT = 60


@pytest.fixture
def local(tmp_path: Path) -> Iterator[Site]:
    """A site whose processes know no URL: each of them is a user of the embedded server of one folder."""
    folder = tmp_path / "site"
    folder.mkdir()
    data = folder / ".tenure"
    with (
        EmbeddedServer.attach(data) as server,
        Site(server.url, "local", folder, {"TENURE_FOLDER": str(data)}) as site,
    ):
        site.knows_its_url = False
        yield site


def kill_server(site: Site) -> None:
    os.kill(int((site.folder / ".tenure" / "server.pid").read_text()), signal.SIGKILL)


def test_a_killed_embedded_server_is_brought_back_by_those_who_work_on_it(local: Site) -> None:
    """G5, G10"""
    local.scheduler()
    local.worker(slots=1)
    handle = local.client.start(work.patience, "a")
    local.until(lambda: local.entries("start", task="patient"), "it runs")

    kill_server(local)
    local.open_gate("a")

    assert handle.result(LIMIT) == [2, 1, 3]
    assert {entry["attempt"] for entry in ledger.read(local.folder, "start")} == {1}


def test_an_outage_while_the_recipes_own_code_runs_does_not_reach_the_recipe(local: Site) -> None:
    """It is no exception of the recipe's: it neither fails nor takes another path."""
    local.scheduler()
    local.worker(slots=1)
    handle = local.client.start(work.thinks, "think")
    local.until(lambda: local.entries("start", task="quick"), "its first task has run")

    kill_server(local)
    local.open_gate("think")

    try:
        assert handle.result(LIMIT) == [2, 3]
    except ExecutionFailed as error:
        pytest.fail(f"{error}\n{local.processes[1].tail()}")
