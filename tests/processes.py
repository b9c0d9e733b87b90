"""Real workers and schedulers for tests, and ways to hurt them."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import pytest

from tenure import Client, Settings
from tenure.wiring import Store, open_store
from tests.jobs import ledger
from tests.waiting import wait_until

ROOT = Path(__file__).parent.parent

#: Short enough for tests; the bounds that tests wait for are ten times what these give.
SHORT = {
    "TENURE_LEASE": "2",
    "TENURE_RENEWAL": "0.4",
    "TENURE_LEADERSHIP": "1.5",
    "TENURE_TICK": "0.2",
    "TENURE_DRAIN": "5",
    "TENURE_RESEND": "20",
}


@dataclass
class Process:
    """One `tenure ...` process with its log."""

    popen: subprocess.Popen[bytes]
    log: Path
    name: str

    @property
    def pid(self) -> int:
        return self.popen.pid

    def signal(self, number: int) -> None:
        self.popen.send_signal(number)

    def children(self) -> list[int]:
        """Pids of its direct children that are Python, which are slots."""
        found = []
        for entry in Path("/proc").iterdir():
            if entry.name.isdigit() and parent_of(int(entry.name)) == self.pid:
                command = (entry / "cmdline").read_bytes() if entry.exists() else b""
                if b"tenure_workers.slot" in command:
                    found.append(int(entry.name))
        return found

    def wait(self, seconds: float = 30) -> int:
        try:
            return self.popen.wait(seconds)
        except subprocess.TimeoutExpired:
            raise AssertionError(f"{self.name} did not end within {seconds:g} s\n{self.tail()}") from None

    def tail(self) -> str:
        return self.log.read_text(errors="replace")[-4000:]


@dataclass
class Site:
    """One namespace on one server, with the processes a test starts in it."""

    url: str
    namespace: str
    folder: Path
    settings: dict[str, str] = field(default_factory=dict)
    processes: list[Process] = field(default_factory=list)
    #: Whether its processes are given the URL, or find the embedded server of their folder themselves.
    knows_its_url: bool = True
    store: Store = field(init=False)
    client: Client = field(init=False)

    def __post_init__(self) -> None:
        environment = {**SHORT, **self.settings}
        self.store = open_store(
            self.url,
            namespace=self.namespace,
            settings=Settings.from_environment(environment),
            environment=environment,
        )
        self.client = Client(store=self.store)

    def run(self, name: str, *arguments: str, cgroup: Path | None = None, **environment: str) -> Process:
        """Start `tenure ARGUMENTS`, in a cgroup if one is given."""
        log = self.folder / f"{name}.log"
        command = [str(Path(sys.executable).parent / "tenure"), *arguments]
        if cgroup is not None:
            command = ["/bin/sh", "-c", 'echo $$ > "$0/cgroup.procs"; exec "$@"', str(cgroup), *command]
        with log.open("ab") as output:
            popen = subprocess.Popen(
                command,
                cwd=ROOT,
                env={
                    **os.environ,
                    **SHORT,
                    **self.settings,
                    **environment,
                    **({"TENURE_REDIS_URL": self.url} if self.knows_its_url else {}),
                    "TENURE_NAMESPACE": self.namespace,
                    ledger.VARIABLE: str(self.folder),
                },
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                start_new_session=True,
            )
        process = Process(popen, log, name)
        self.processes.append(process)
        return process

    def worker(
        self,
        pool: str = "small",
        *,
        name: str = "one",
        slots: int = 1,
        allocation: str = "cpu=1,memory=1Gi",
        modules: Sequence[str] = ("tests.jobs.work",),
        cgroup: Path | None = None,
        **environment: str,
    ) -> Process:
        """Start an agent and wait until its session is ready."""
        imports = [part for module in modules for part in ("--import", module)]
        process = self.run(
            name,
            "worker",
            pool,
            *imports,
            "--slots",
            str(slots),
            "--allocation",
            allocation,
            "--name",
            name,
            cgroup=cgroup,
            **environment,
        )
        self.until(lambda: self.is_ready(name) or process.popen.poll() is not None, f"worker {name} is ready")
        assert process.popen.poll() is None, process.tail()
        return process

    def scheduler(self, name: str = "scheduler") -> Process:
        """Start a scheduler."""
        return self.run(name, "scheduler", "--name", name)

    def move_clock(self, seconds: float) -> None:
        """Move the store's clock on; only in a site whose settings have TENURE_TEST_CLOCK=1."""
        self.raw.incrby(self.store.keys("clock"), int(seconds * 1000))

    def is_ready(self, session: str) -> bool:
        return any(s.name == session and s.state == "ready" for s in self.store.sessions.list())

    def entries(self, what: str | None = None, **fields: Any) -> list[dict[str, Any]]:
        """Ledger entries of one kind whose fields are these."""
        return [e for e in ledger.read(self.folder, what) if all(e.get(k) == v for k, v in fields.items())]

    @property
    def raw(self) -> Any:
        """The server, for tests that look at keys or harm them. Untyped: its replies are bytes here."""
        return self.store.client

    def open_gate(self, name: str) -> None:
        ledger.open_gate(self.folder, name)

    def until(self, predicate: Callable[[], object], what: str, seconds: float = 30) -> None:
        """Wait for something to be true; says what the processes logged if it never is."""
        try:
            wait_until(predicate, seconds, what)
        except pytest.fail.Exception as failure:
            logs = "\n".join(f"--- {p.name}\n{p.tail()}" for p in self.processes)
            pytest.fail(f"{failure}\n{logs}")

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for process in self.processes:
            for number in (signal.SIGCONT, signal.SIGKILL):
                if process.popen.poll() is None:
                    process.popen.send_signal(number)
            process.popen.wait()
        self.store.close()


def parent_of(pid: int) -> int | None:
    """The parent of a process, None if it is gone."""
    try:
        return int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])
    except (FileNotFoundError, ProcessLookupError):
        return None


def is_alive(pid: int) -> bool:
    """Whether a process exists and is no zombie."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except (FileNotFoundError, ProcessLookupError):
        return False
