"""Slots as child processes: they end with their agent, their groups end with them, and the cause is named."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import textwrap
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tenure_workers.children import SlotProcess, process_state
from tenure_workers.death import MemoryKills, cause_of_death
from tests.waiting import wait_until

#: What stands for a slot: it writes its pid to a file when it is there.
BODY = """
import os, pathlib, signal, subprocess, sys, time
here = pathlib.Path({here!r})
def there(name, text):
    (here / (name + ".part")).write_text(str(text))
    (here / (name + ".part")).rename(here / name)
def shell():
    # A shell that writes on and on, and does not mind polite signals.
    script = "trap '' TERM INT HUP; while true; do echo $$ >> writing; sleep 0.01; done"
    there("shell", subprocess.Popen(["/bin/sh", "-c", script], cwd=here).pid)
{body}
there("ready", os.getpid())
{then}
"""

Spawn = Callable[..., SlotProcess]


def code(here: Path, body: str = "", then: str = "time.sleep(60)") -> str:
    return BODY.format(here=str(here), body=textwrap.dedent(body), then=textwrap.dedent(then))


@pytest.fixture
def spawn(tmp_path: Path) -> Iterator[Spawn]:
    spawned: list[SlotProcess] = []

    def start(body: str = "", then: str = "time.sleep(60)") -> SlotProcess:
        command = [sys.executable, "-c", code(tmp_path, body, then)]
        process = SlotProcess.spawn(environment=os.environ, command=command)
        spawned.append(process)
        return process

    yield start
    for process in spawned:
        if process_state(process.pid) is not None:
            process.kill_group()
            wait_until(process.has_died, 5, "the slot dies")
            process.bury()


def is_gone(pid: int) -> bool:
    return process_state(pid) in (None, "Z")


def number(path: Path) -> int:
    wait_until(path.exists, 10, f"{path.name} is there")
    return int(path.read_text())


def bury(process: SlotProcess) -> tuple[int, str]:
    wait_until(process.has_died, 10, "the slot dies")
    return process.bury()


# --- causes of death ---


@pytest.mark.parametrize(
    ("then", "code_", "cause"),
    [
        ("os.kill(os.getpid(), signal.SIGKILL)", -9, "killed by SIGKILL"),
        ("os.kill(os.getpid(), signal.SIGSEGV)", -11, "killed by SIGSEGV"),
        ("os._exit(3)", 3, "exited with code 3"),
        ("sys.exit(0)", 0, "exited with code 0"),
        ("os._exit(70)", 70, "exited with code 70 (a write was not confirmed)"),
    ],
)
def test_the_cause_of_death_is_named(spawn: Spawn, then: str, code_: int, cause: str) -> None:
    assert bury(spawn(then=then)) == (code_, cause)


def test_the_end_of_stderr_is_quoted(spawn: Spawn) -> None:
    body = "for n in range(1000): print('line', n, file=sys.stderr)"
    assert bury(spawn(body, "sys.exit('no paper left')")) == (
        1,
        "exited with code 1 — line 998; line 999; no paper left",
    )


def test_stderr_is_passed_on(spawn: Spawn, capfdbinary: pytest.CaptureFixture[bytes]) -> None:
    bury(spawn("print('to whom it may concern', file=sys.stderr)", "sys.exit(0)"))
    assert b"to whom it may concern\n" in capfdbinary.readouterr().err


def test_an_uncaught_error_is_told_by_its_last_lines(spawn: Spawn) -> None:
    _, cause = bury(spawn(then="raise KeyError('missing')"))
    assert cause.startswith("exited with code 1 — ")
    assert cause.endswith("KeyError: 'missing'")


def test_a_fault_is_told_by_its_name_and_innermost_frame(spawn: Spawn) -> None:
    body = """
    import faulthandler
    faulthandler.enable()
    def inner():
        os.kill(os.getpid(), signal.SIGSEGV)
    """
    _, cause = bury(spawn(body, "inner()"))
    assert cause.startswith("killed by SIGSEGV — Fatal Python error: Segmentation fault; ")
    assert cause.endswith("in inner")


def test_progress_and_memory_are_part_of_the_cause() -> None:
    assert (
        cause_of_death(-9, out_of_memory=True, progress="2/3 printing", tail=[])
        == "killed for memory (oom_kill counter of its cgroup rose) — last progress 2/3 printing"
    )
    # Its counter may have risen for somebody else's sake.
    assert cause_of_death(3, out_of_memory=True, progress="", tail=[]) == "exited with code 3"


def test_a_counter_that_cannot_be_read_accuses_nobody() -> None:
    kills = MemoryKills(2**22 + 1)
    kills.look()
    assert not kills.has_risen()


@pytest.mark.parametrize("text", ["oom_kill 4\n", "oom_kill_disable 0\nunder_oom 0\noom_kill 4\n"])
def test_the_counter_is_compared_with_what_it_was_just_before(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, text: str
) -> None:
    counter = tmp_path / "memory.events"
    counter.write_text(text)
    monkeypatch.setattr("tenure_workers.death._counter_files", lambda pid: (counter,))
    kills = MemoryKills(1)
    kills.look()
    assert not kills.has_risen()
    counter.write_text(text.replace("oom_kill 4", "oom_kill 5"))
    assert kills.has_risen()
    kills.look()
    assert kills.has_risen()  # seen by a look between the kill and the death
    kills.look()
    assert not kills.has_risen()  # an old one, of some other process


# --- groups ---


def test_what_a_task_started_ends_with_its_slot(spawn: Spawn, tmp_path: Path) -> None:
    process = spawn("shell()")
    shell = number(tmp_path / "shell")
    os.kill(process.pid, signal.SIGKILL)
    wait_until(process.has_died, 5, "the slot dies")
    assert not is_gone(shell)
    process.bury()
    assert is_gone(shell)


def test_a_group_is_killed_before_its_number_is_free(spawn: Spawn) -> None:
    process = spawn(then="sys.exit(0)")
    wait_until(process.has_died, 5, "the slot ends")
    assert process_state(process.pid) == "Z"
    assert os.getpgid(process.pid) == process.pid
    process.bury()
    assert process_state(process.pid) is None


def test_no_guard_stays_behind(spawn: Spawn) -> None:
    process = spawn(then="sys.exit(0)")
    guard = process._guard.pid
    bury(process)
    assert process_state(guard) is None


def test_a_stopped_slot_is_known(spawn: Spawn, tmp_path: Path) -> None:
    process = spawn()
    number(tmp_path / "ready")
    assert not process.is_stopped()
    os.kill(process.pid, signal.SIGSTOP)
    wait_until(process.is_stopped, 5, "the slot is stopped")
    os.kill(process.pid, signal.SIGCONT)
    wait_until(lambda: not process.is_stopped(), 5, "the slot goes on")


# --- the death of the agent ---

AGENT = """
import os, sys, time
from tenure_workers.children import SlotProcess
SlotProcess.spawn(environment=os.environ, command=[sys.executable, "-c", {code!r}])
time.sleep(60)
"""


@pytest.mark.parametrize("slot_is", ["running", "stopped", "dead"])
def test_everything_ends_with_the_agent(tmp_path: Path, slot_is: str) -> None:
    """The stand-in for a slot asks the kernel for nothing: the guard alone has to see to it."""
    agent = subprocess.Popen([sys.executable, "-c", AGENT.format(code=code(tmp_path, "shell()"))])
    slot, shell = number(tmp_path / "ready"), number(tmp_path / "shell")
    number_of_signal = {"running": 0, "stopped": signal.SIGSTOP, "dead": signal.SIGKILL}[slot_is]
    os.kill(slot, number_of_signal)
    agent.kill()
    agent.wait()
    wait_until(lambda: is_gone(slot) and is_gone(shell), 5, "slot and shell are gone")


def test_a_signal_to_the_whole_service_does_not_end_the_guard(spawn: Spawn, tmp_path: Path) -> None:
    process = spawn()
    number(tmp_path / "ready")
    guard = process._guard.pid
    for polite in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        os.kill(guard, polite)
    with pytest.raises(subprocess.TimeoutExpired):
        process._guard.wait(0.1)
