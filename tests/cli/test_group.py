from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import click
import pytest

from tenure import Client
from tenure.cli import cli
from tenure.cli.group import OWN
from tenure.cli.target import Target
from tenure.engine.driver import Driver
from tenure.wiring import NAMESPACE
from tests.cli.conftest import ROOT, Tenure
from tests.samples import failing, publish, squares
from tests.waiting import wait_until


def test_help_lists_our_commands_and_those_of_other_packages(tenure: Tenure) -> None:
    shown = tenure("--help")
    assert shown.code == 0
    for name in [*OWN, "worker", "scheduler"]:
        assert f"\n  {name} " in shown.out


def test_help_connects_to_nothing(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "tenure.cli", "--help"], cwd=tmp_path, capture_output=True, check=True
    )
    assert b"Usage" in done.stdout
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("name", OWN)
def test_a_command_has_the_summary_that_the_group_shows_for_it(name: str) -> None:
    context = click.Context(cli)
    command = cli.get_command(context, name)
    assert command is not None
    assert command.get_short_help_str(limit=200) == OWN[name][1]


def test_a_broken_command_says_why_and_takes_no_other_along(tenure: Tenure, tmp_path: Path) -> None:
    info = tmp_path / "shaky-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: shaky\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text("[tenure.commands]\nshake = shaky:shake\n")
    (tmp_path / "shaky.py").write_text("raise ImportError('no ground')\n")

    shown = tenure("--help", PYTHONPATH=str(tmp_path))
    assert shown.code == 0
    assert "shake" in shown.out
    assert "ImportError: no ground" in shown.out
    assert tenure("list", PYTHONPATH=str(tmp_path)).code == 0

    run = tenure("shake", "--hard", PYTHONPATH=str(tmp_path))
    assert run.code == 1
    assert run.err.startswith(
        "Error: command shake of shaky (shaky:shake) cannot be loaded: ImportError: no gr"
    )
    assert "reinstall" in run.err


def test_the_console_script_knows_its_version() -> None:
    script = Path(sys.executable).with_name("tenure")
    done = subprocess.run([script, "--version"], capture_output=True, text=True, check=True, cwd=ROOT)
    assert done.stdout.split()[0] == "tenure"


def test_the_namespace_is_that_of_the_library_and_can_come_from_the_environment(
    tenure: Tenure, client: Client, url: str, namespace: str
) -> None:
    assert Target.namespace == NAMESPACE
    client.start(publish, "Dune", id="dune")
    tenure.options = ["--url", url]
    assert [row["id"] for row in tenure("list", "--json", TENURE_NAMESPACE=namespace).data["executions"]] == [
        "dune"
    ]


def test_an_instance_sees_nothing_of_another(tenure: Tenure, client: Client) -> None:
    client.start(publish, "Dune", id="dune")
    tenure.options += ["--instance", "other"]
    assert tenure("list", "--json").data == {"executions": [], "next": None}
    assert tenure.here("show", "dune").code == 3


def test_a_closed_pipe_ends_it_quietly(tenure: Tenure, client: Client, slot: Driver) -> None:
    client.start(squares, 400, id="many")
    slot.drain()
    with tenure.begin("events", "many", "--json") as process:
        assert process.stdout is not None
        assert process.stderr is not None
        assert process.stdout.readline()
        process.stdout.close()
        assert process.wait(30) == 128 + signal.SIGPIPE
        assert process.stderr.read() == ""


def test_control_c_ends_it_quietly(tenure: Tenure, client: Client) -> None:
    client.start(publish, "Dune", id="dune")
    with tenure.begin("events", "dune", "-f") as process:
        assert process.stdout is not None
        assert process.stderr is not None
        assert "created" in process.stdout.readline()
        process.send_signal(signal.SIGINT)
        assert process.wait(30) == 128 + signal.SIGINT
        assert process.stderr.read() == ""


def on_a_terminal(tenure: Tenure, *words: str) -> str:
    """What a terminal of 100 columns gets to see."""
    leader, follower = os.openpty()
    environment = tenure.environment(TERM="xterm-256color", COLUMNS="100")
    try:
        with subprocess.Popen(
            tenure.command(*words), cwd=ROOT, env=environment, stdout=follower, stderr=follower
        ) as process:
            shown: list[bytes] = []
            os.close(follower)

            def ended() -> bool:
                try:
                    shown.append(os.read(leader, 65536))
                except OSError:  # the last one has closed it
                    return True
                return False

            wait_until(ended, 60, "the process closes its terminal")
            assert process.wait(10) == 0
        return b"".join(shown).decode()
    finally:
        os.close(leader)


def test_a_terminal_gets_colour_and_only_columns_that_say_something(
    tenure: Tenure, client: Client, slot: Driver
) -> None:
    client.start(publish, "Dune", id="dune")
    slot.drain()
    shown = on_a_terminal(tenure, "list")
    assert "\x1b[32mcompleted" in shown
    assert "─" in shown
    assert "waiting for" not in shown
    assert "error" not in shown
    assert "WAITING FOR" in tenure.here("list").out
    assert "\x1b" not in tenure.here("list").out


def test_text_of_tasks_is_neither_markup_nor_control_characters(
    tenure: Tenure, client: Client, slot: Driver
) -> None:
    client.start(failing, "[red]\x1b[2J[/red] :tada:", id="rude")
    slot.drain()
    shown = on_a_terminal(tenure, "show", "rude")
    assert "[red]\N{REPLACEMENT CHARACTER}[2J[/red] :tada:" in shown
    assert "\x1b[2J" not in shown
    for command in ("list", "show", "events", "explain"):
        words = [command] if command == "list" else [command, "rude"]
        assert "\x1b" not in tenure.here(*words).out
