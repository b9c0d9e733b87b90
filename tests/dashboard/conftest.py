"""A dashboard in a process of its own, beside a worker whose one slot is busy with work behind it."""

from __future__ import annotations

import json
import re
import socket
from collections.abc import Iterator
from dataclasses import dataclass
from http.client import HTTPConnection
from typing import Any

import pytest

from tenure import Handle
from tests.jobs import work
from tests.processes import Process, Site

REGISTRIES = ("queued", "started", "finished", "failed", "deferred", "scheduled", "canceled")


@dataclass(frozen=True)
class Answer:
    status: int
    body: str
    headers: dict[str, str]

    @property
    def data(self) -> Any:
        assert self.status == 200, self.body
        return json.loads(self.body)


@dataclass(frozen=True)
class Dashboard:
    process: Process
    address: str

    def get(self, path: str, **headers: str) -> Answer:
        return self.ask("GET", path, **headers)

    def press(self, path: str, **headers: str) -> Answer:
        """What a button's script sends."""
        return self.ask("POST", path, **{"X-Requested-With": "XMLHttpRequest", **headers})

    def ask(self, method: str, path: str, **headers: str) -> Answer:
        connection = HTTPConnection(self.address, timeout=20)
        try:
            connection.request(
                method, path, headers={name.replace("_", "-"): v for name, v in headers.items()}
            )
            response = connection.getresponse()
            return Answer(
                response.status, response.read().decode(errors="replace"), dict(response.getheaders())
            )
        finally:
            connection.close()

    def assert_no_failure_in_the_log(self) -> None:
        log = self.process.log.read_text()
        assert "Traceback" not in log
        assert not re.search(r" 5\d\d$", log, flags=re.MULTILINE), log


def begin(site: Site, *options: str) -> Dashboard:
    """Start `tenure dashboard` on a free port and wait until it listens."""
    process = site.run("dashboard", "dashboard", "--port", "0", "--verbose", *options)

    def address() -> re.Match[str] | None:
        return re.search(r" on http://([^/]+)/", process.log.read_text())

    site.until(lambda: address() or process.popen.poll() is not None, "the dashboard listens")
    found = address()
    assert found is not None, process.tail()
    return Dashboard(process, found[1].replace("0.0.0.0", "127.0.0.1"))  # noqa: S104  # no bind


@pytest.fixture
def dashboard(site: Site) -> Iterator[Dashboard]:
    one = begin(site)
    yield one
    one.assert_no_failure_in_the_log()


@dataclass(frozen=True)
class Busy:
    """One slot, at a gate with `first`; tickets of `behind` lie in the queue."""

    site: Site
    queue: str
    first: Handle
    behind: list[Handle]

    @property
    def tickets(self) -> list[str]:
        return [raw.decode() for raw in self.site.raw.lrange(f"rq:queue:{self.queue}", 0, -1)]

    @property
    def running(self) -> str:
        """The ticket that the slot runs."""
        (entry,) = self.site.raw.zrange(f"rq:wip:{self.queue}", 0, -1)
        return str(entry.decode().split(":")[0])

    def finish(self) -> None:
        """Open the gate: everything ends with the right result, and nothing ran twice."""
        self.site.open_gate("a")
        assert self.first.result(60) == [2, 1, 3]
        assert [handle.result(60) for handle in self.behind] == [2] * len(self.behind)
        ended = [entry["key"] for entry in self.site.entries("end")]
        assert len(ended) == len(set(ended)) == 3 + 2 * len(self.behind)


@pytest.fixture
def busy(site: Site) -> Busy:
    site.scheduler()
    site.worker(slots=1)
    # What a slot takes when it begins, it takes without a ticket.
    site.until(lambda: site.store.sessions.view().queues[0].idle == 1, "the slot is idle")
    first = site.client.start(work.patience, "a")
    site.until(lambda: site.entries("start", task="patient"), "the slot is busy")
    behind = [site.client.start(work.chain, 2) for _ in range(3)]
    queue = site.store.sessions.view().queues[0].name
    one = Busy(site, queue, first, behind)
    site.until(lambda: len(one.tickets) == 3, "tickets lie in the queue")
    return one


def free_port() -> int:
    with socket.socket() as listening:
        listening.bind(("127.0.0.1", 0))
        return int(listening.getsockname()[1])
