"""`tenure dev` as people use it: real processes in a folder of its own, with code that changes."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tenure import Client, Run, recipe
from tenure.cli.dev.sources import Sources
from tenure.embedded import EmbeddedServer
from tenure.wiring import open_store
from tests.posting import post
from tests.waiting import wait_until

CODE = """
from tenure import Run, recipe, task

@task
def word() -> str:
    return {word!r}

@recipe
def greet(run: Run) -> str:
    return run.call(word)
"""
LIMIT = 30


@recipe
def greet(run: Run) -> str:
    """What a client knows of the recipe in the folder: its name and its result."""
    raise NotImplementedError


class Dev:
    """A `tenure dev` in a folder, and what it has printed."""

    def __init__(self, folder: Path, *options: str) -> None:
        self.folder = folder
        self.lines: list[str] = []
        self.popen = subprocess.Popen(
            [sys.executable, "-m", "tenure.cli", "dev", "--import", "app", *options],
            cwd=folder,
            env={k: v for k, v in os.environ.items() if not k.startswith("TENURE_")}
            | {"DEV_TEST": str(folder)},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        threading.Thread(target=self._read, daemon=True).start()

    def _read(self) -> None:
        assert self.popen.stdout is not None
        self.lines.extend(self.popen.stdout)
        self.popen.stdout.close()

    def write(self, text: str) -> None:
        (self.folder / "app.py").write_text(text)

    def printed(self, name: str, text: str) -> int:
        """How many lines of a process have this text."""
        return sum(line.strip().startswith(f"{name} |") and text in line for line in self.lines)

    def until(self, name: str, text: str, count: int = 1) -> None:
        try:
            wait_until(lambda: self.printed(name, text) >= count, LIMIT, f"{name} says {text!r}")
        except pytest.fail.Exception as failure:
            pytest.fail(f"{failure}\n{''.join(self.lines)}")

    def processes(self) -> list[str]:
        """Command lines of everything that was started from here, the server and its guard included."""
        mark = f"DEV_TEST={self.folder}\0".encode()
        found = []
        for entry in Path("/proc").iterdir():
            if entry.name.isdigit():
                try:
                    if mark in (entry / "environ").read_bytes():
                        found.append((entry / "cmdline").read_bytes().replace(b"\0", b" ").decode())
                except OSError:  # it has ended
                    continue
        return found

    def gone(self) -> bool:
        return self.processes() == []

    def end(self, number: int, code: int) -> None:
        self.popen.send_signal(number)
        assert self.popen.wait(LIMIT) == code, "".join(self.lines)
        wait_until(self.gone, 10, "no process is left")


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "app.py").write_text(CODE.format(word="one"))
    return tmp_path


@pytest.fixture
def begin(folder: Path) -> Iterator[Callable[..., Dev]]:
    """Starts a `tenure dev` in the folder; whatever becomes of the test, it ends."""
    begun: list[Dev] = []

    def start(*options: str) -> Dev:
        begun.append(Dev(folder, *options))
        return begun[-1]

    yield start
    for one in begun:
        one.popen.kill()
        one.popen.wait()


def test_it_runs_everything_and_reloads_code_that_can_be_loaded(begin: Callable[..., Dev]) -> None:
    dev = begin("--port", "0")
    dev.until("worker", "registered")
    dev.until("dashboard", "on http://")
    dev.until("scheduler", "leads")
    with EmbeddedServer.attach(dev.folder / ".tenure") as server, Client(server.url) as client:
        assert client.start(greet).result(LIMIT) == "one"

        dev.write(CODE.format(word="two"))
        dev.until("code", "loaded; the worker starts again with it")
        dev.until("worker", "registered", 2)
        assert client.start(greet).result(LIMIT) == "two"

        dev.write("def broken(:\n")
        dev.until("code", "SyntaxError")
        assert not dev.printed("code", "importlib")
        dev.until("code", "the worker goes on with the code it has")
        assert client.start(greet).result(LIMIT) == "two"

        dev.write(CODE.format(word="three"))
        dev.until("worker", "registered", 3)
        assert client.start(greet).result(LIMIT) == "three"
    dev.end(signal.SIGINT, 0)
    assert dev.printed("dev", "everything that was started has ended")


def test_no_process_is_left_when_it_is_killed(begin: Callable[..., Dev]) -> None:
    dev = begin("--no-dashboard")
    dev.until("worker", "registered")
    dev.end(signal.SIGKILL, -signal.SIGKILL)


def test_code_that_cannot_be_loaded_at_first_is_waited_for(folder: Path, begin: Callable[..., Dev]) -> None:
    (folder / "app.py").write_text("import nothing_of_this_name\n")
    dev = begin("--no-dashboard")
    dev.until("code", "the worker starts as soon as it loads")
    dev.write(CODE.format(word="one"))
    dev.until("worker", "registered")
    dev.end(signal.SIGTERM, 0)


def test_its_scheduler_is_given_the_provisioner(folder: Path, begin: Callable[..., Dev]) -> None:
    (folder / "hook").write_text("#!/bin/sh\ncat > told\n")
    (folder / "hook").chmod(0o755)
    dev = begin("--no-dashboard", "--provisioner", "./hook")
    dev.until("scheduler", "leads")
    with EmbeddedServer.attach(folder / ".tenure") as server, open_store(server.url) as store:
        event_id = post(store)
        dev.until("scheduler", f"event {event_id} is delivered")
    assert event_id in (folder / "told").read_text()
    dev.end(signal.SIGINT, 0)


def test_a_provisioner_that_cannot_be_one_ends_it(begin: Callable[..., Dev]) -> None:
    dev = begin("--no-dashboard", "--provisioner", "no-such-command-anywhere")
    assert dev.popen.wait(LIMIT) != 0
    wait_until(lambda: dev.printed("scheduler", "no command 'no-such-command-anywhere'"), 5, "it says why")
    wait_until(dev.gone, 10, "no process is left")


def test_without_reloading_code_that_cannot_be_loaded_is_a_usage_error(
    folder: Path, begin: Callable[..., Dev]
) -> None:
    (folder / "app.py").write_text("import nothing_of_this_name\n")
    dev = begin("--no-dashboard", "--no-reload")
    assert dev.popen.wait(LIMIT) == 2
    wait_until(lambda: any("nothing_of_this_name" in line for line in dev.lines), 5, "it says why")
    wait_until(dev.gone, 10, "no process is left")


# -- sources -------------------------------------------------------------------------------------------------


def test_changed_are_files_that_were_written_made_or_removed(tmp_path: Path) -> None:
    for name in ("written.py", "removed.py", "kept.py"):
        (tmp_path / name).write_text("1")
    sources = Sources([tmp_path])
    assert sources.changed() == []
    (tmp_path / "written.py").write_text("12")
    (tmp_path / "removed.py").unlink()
    (tmp_path / "package").mkdir()
    (tmp_path / "package" / "made.py").write_text("")
    (tmp_path / "notes.txt").write_text("")
    changed = sources.changed()
    assert [path.name for path in changed] == ["made.py", "removed.py", "written.py"]
    assert sources.changed() == []


def test_environments_and_hidden_folders_are_not_watched(tmp_path: Path) -> None:
    sources = Sources([tmp_path])
    (tmp_path / "environment").mkdir()
    (tmp_path / "environment" / "pyvenv.cfg").touch()
    for folder in ("environment", ".hidden", "node_modules", "__pycache__"):
        (tmp_path / folder).mkdir(exist_ok=True)
        (tmp_path / folder / "module.py").touch()
    (tmp_path / "dangling.py").symlink_to("nowhere")
    assert sources.changed() == []
