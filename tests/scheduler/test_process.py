"""Real `tenure scheduler` processes, killed and stopped."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tenure.settings import Settings
from tenure.wiring import open_store
from tests.scheduler.own_server import OwnServer
from tests.scheduler.world import World
from tests.waiting import wait_until

LEADERSHIP_SECONDS = 3.0
TICK_SECONDS = 0.2


class Process:
    def __init__(self, *arguments: str, log: Path) -> None:
        self._log = log
        settings = {"TENURE_LEADERSHIP": str(LEADERSHIP_SECONDS), "TENURE_TICK": str(TICK_SECONDS)}
        with log.open("wb") as stderr:
            self.popen = subprocess.Popen(
                [sys.executable, "-m", "tenure.cli", "scheduler", *arguments],
                env={**os.environ, **settings, "TENURE_TEST_CLOCK": "1"},
                stderr=stderr,
            )

    def log(self) -> str:
        return self._log.read_text()

    def leads(self) -> bool:
        return self._last("leads", "follows") == "leads"

    def follows(self) -> bool:
        return self._last("leads", "follows") == "follows"

    def stop(self, number: int) -> tuple[int, float]:
        """Send a signal: the exit code, and how many seconds it took."""
        began = time.monotonic()
        self.popen.send_signal(number)
        return self.popen.wait(10), time.monotonic() - began

    def end(self) -> None:
        self.popen.kill()
        self.popen.wait()

    def _last(self, *words: str) -> str | None:
        found = [word for line in self.log().splitlines() for word in words if f" {word}" in line]
        return found[-1] if found else None


class Launcher:
    def __init__(self, url: str, namespace: str, folder: Path) -> None:
        self._arguments = ["--url", url, "--namespace", namespace]
        self._folder = folder
        self.started: list[Process] = []

    def __call__(self, name: str) -> Process:
        process = Process(*self._arguments, "--name", name, log=self._folder / f"{name}.log")
        self.started.append(process)
        return process


@pytest.fixture
def launch(url: str, namespace: str, tmp_path: Path) -> Iterator[Launcher]:
    launcher = Launcher(url, namespace, tmp_path)
    yield launcher
    for process in launcher.started:
        process.end()


def test_a_standby_leads_within_lease_and_one_second_of_the_leaders_death(launch: Launcher) -> None:
    first = launch("first")
    wait_until(first.leads, 10, "the first leads")
    second = launch("second")
    wait_until(second.follows, 10, "the second follows")

    first.popen.kill()

    wait_until(second.leads, LEADERSHIP_SECONDS + 1, "the second leads")


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_stop_exits_0_promptly_and_hands_over(launch: Launcher, number: int) -> None:
    first = launch("first")
    wait_until(first.leads, 10, "the first leads")
    second = launch("second")
    wait_until(second.follows, 10, "the second follows")

    code, seconds = first.stop(number)

    assert (code, seconds < 3) == (0, True), first.log()
    wait_until(second.leads, 1.5, "the second leads at once")
    assert second.stop(number)[0] == 0


def test_a_follower_exits_0_promptly(launch: Launcher) -> None:
    first = launch("first")
    wait_until(first.leads, 10, "the first leads")
    second = launch("second")
    wait_until(second.follows, 10, "the second follows")

    code, seconds = second.stop(signal.SIGTERM)

    assert (code, seconds < 3) == (0, True)


def test_work_of_a_dead_agent_is_placed_on_another(launch: Launcher, world: World) -> None:
    """The duties together: the session expires, the lease lapses, the route goes to who is left."""
    slot, grant = world.claim_task()
    slot.mark_started(grant)
    queue = world.register("other", queue="other")
    process = launch("one")
    wait_until(process.leads, 10, "it leads")

    world.pass_lease()
    world.renew("other")

    wait_until(lambda: world.indexes("e", "draw#1") == {queue}, 5, "the task waits for the other agent")
    assert process.popen.poll() is None, process.log()


def test_it_goes_on_after_the_server_was_away(tmp_path: Path) -> None:
    with OwnServer() as server:
        process = Launcher(server.url, "t", tmp_path)("one")
        try:
            wait_until(process.leads, 10, "it leads")
            server.kill()
            wait_until(lambda: "presumed lost" in process.log(), 10, "it has noticed")
            server.start()
            noticed = process.log().count(" leads")

            wait_until(lambda: process.log().count(" leads") > noticed, 5, "it leads again")

            with open_store(server.url, namespace="t", settings=Settings(), test_clock=True) as store:
                world = World(store, store.client)
                world.start("e")
                queue = world.register("agent")
                wait_until(lambda: world.indexes("e") == {queue}, 5, "it does its duties again")
            assert process.stop(signal.SIGTERM)[0] == 0
        finally:
            process.end()


def test_a_stop_is_prompt_while_the_server_is_away(tmp_path: Path) -> None:
    with OwnServer() as server:
        process = Launcher(server.url, "t", tmp_path)("one")
        try:
            wait_until(process.leads, 10, "it leads")
            server.kill()
            wait_until(lambda: "presumed lost" in process.log(), 10, "it has noticed")

            code, seconds = process.stop(signal.SIGTERM)
        finally:
            process.end()

    assert (code, seconds < 3) == (0, True), process.log()


def test_an_unreachable_server_is_said_at_the_start(tmp_path: Path) -> None:
    process = Process("--url", "redis://127.0.0.1:1/0", log=tmp_path / "log")

    assert process.popen.wait(10) == 5
    assert "no server answers" in process.log()


@pytest.mark.parametrize("arguments", [("--namespace", "a:b"), ("--url", "http://x"), ("--what",)])
def test_a_mistake_in_the_command_line_is_said(tmp_path: Path, arguments: tuple[str, ...]) -> None:
    process = Process(*arguments, log=tmp_path / "log")

    assert process.popen.wait(10) == 2
