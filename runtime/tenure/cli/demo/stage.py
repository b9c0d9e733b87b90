"""The processes the demo runs: an embedded server, a scheduler and the agents of two pools, all real."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Mapping
from datetime import timedelta
from pathlib import Path
from types import TracebackType
from typing import Final, Self

from tenure import Client, Settings, TenureError
from tenure.cli.demo.processes import Member, slots_by_agent, wait_until_gone
from tenure.cli.processes import Group, Interruptions
from tenure.embedded import EmbeddedServer
from tenure.model.status import SessionState

#: Short, so that one can watch a lease lapse.
SETTINGS: Final = Settings(
    lease=timedelta(seconds=3),
    renewal=timedelta(seconds=1),
    leadership=timedelta(seconds=2),
    drain=timedelta(seconds=5),
)
NAMESPACE: Final = "demo"
SMALL_ALLOCATION: Final = "cpu=1,memory=1Gi,label.size=small"
LARGE_ALLOCATION: Final = "cpu=1,memory=2Gi,label.size=large"
SMALL_SLOTS: Final = 2

_COMMAND: Final = (sys.executable, "-m", "tenure.cli")
_JOB: Final = "tenure.cli.demo.job"
_READY_SECONDS: Final = 60.0
_END_SECONDS: Final = 10.0
_POLL_SECONDS: Final = 0.05


class DemoFailed(TenureError):
    """What the demo shows did not happen."""


class Stage:
    """Everything that runs, in the run's own folder. Leaving it ends all of it."""

    def __init__(self, folder: Path, interruptions: Interruptions) -> None:
        self.folder = folder
        self.members: list[Member] = []
        self._interruptions = interruptions
        with interruptions.held():
            self._server = EmbeddedServer.attach(folder / "server")
            self._group = Group()
        self.client = Client(self._server.url, namespace=NAMESPACE, settings=SETTINGS)

    def set_up(self) -> None:
        """Start a scheduler, two agents of pool small and one of large; wait until they are ready."""
        self._start("scheduler", "scheduler")
        self.start_small("small-a")
        self.start_small("small-b")
        self._start_agent("large-a", "large", 1, LARGE_ALLOCATION)
        self._wait_until_ready({"small-a", "small-b", "large-a"})

    def start_small(self, name: str) -> None:
        """Start an agent of pool small."""
        self._start_agent(name, "small", SMALL_SLOTS, SMALL_ALLOCATION)

    def check(self) -> None:
        """Raise `DemoFailed` if a process has ended that nobody killed."""
        for member in self.members:
            code = member.process.poll()
            if code is not None:
                raise DemoFailed(f"{member.name} ended by itself with code {code}")

    def agent_of(self, slot: int) -> tuple[Member, list[int]] | None:
        """The agent whose slot has this pid, with all its slots; None if it has just died."""
        slots = slots_by_agent()
        return next(((m, slots[m.pid]) for m in self.members if slot in slots.get(m.pid, ())), None)

    def forget(self, member: Member) -> None:
        """It was killed on purpose; it is not missed any more."""
        member.process.wait()
        self.members.remove(member)

    def _wait_until_ready(self, names: set[str]) -> None:
        deadline = time.monotonic() + _READY_SECONDS
        while missing := names - self._ready():
            self.check()
            if time.monotonic() > deadline:
                raise DemoFailed(f"{', '.join(sorted(missing))} did not get ready in {_READY_SECONDS:g} s")
            time.sleep(_POLL_SECONDS)

    def _ready(self) -> set[str]:
        sessions = self.client.store.sessions.list()
        return {session.name for session in sessions if session.state is SessionState.READY}

    def _start_agent(self, name: str, pool: str, slots: int, allocation: str) -> None:
        options = {"--import": _JOB, "--slots": str(slots), "--allocation": allocation, "--name": name}
        self._start(name, "worker", pool, *(part for option in options.items() for part in option))

    def _start(self, name: str, *arguments: str) -> None:
        log = self.folder / f"{name}.log"
        command = (*_COMMAND, *arguments, "--url", self.client.store.url, "--namespace", NAMESPACE)
        with self._interruptions.held(), log.open("ab") as output:
            process = self._group.start(
                command, environment=_environment(os.environ), folder=self.folder, output=output
            )
            self.members.append(Member(name, process))

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """End everything: politely after success, at once otherwise."""
        self._interruptions.ignore()
        by_agent = slots_by_agent()
        slots = [slot for member in self.members for slot in by_agent.get(member.pid, ())]
        if kind is None:
            self._ask_to_end()
        self._group.kill()
        for member in self.members:
            member.process.wait()
        left = wait_until_gone(slots, _END_SECONDS)
        self.client.close()
        self._end_server()
        if left:
            raise DemoFailed(f"these slots did not end with their agent: {left}")

    def _ask_to_end(self) -> None:
        for member in self.members:
            member.process.terminate()
        deadline = time.monotonic() + _END_SECONDS
        for member in self.members:
            try:
                member.process.wait(max(0.0, deadline - time.monotonic()))
            except subprocess.TimeoutExpired:
                return

    def _end_server(self) -> None:
        # It removes its socket as the last thing it does.
        self._server.close()
        deadline = time.monotonic() + _END_SECONDS
        while self._server.socket_path.exists() and time.monotonic() < deadline:
            time.sleep(_POLL_SECONDS)


def _environment(ours: Mapping[str, str]) -> dict[str, str]:
    """The demo's settings and nothing that was set for other workers of this machine."""
    rest = {name: value for name, value in ours.items() if not name.startswith("TENURE_")}
    return {**rest, **SETTINGS.to_environment(), "PYTHONUNBUFFERED": "1"}
