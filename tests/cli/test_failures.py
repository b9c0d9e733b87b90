from __future__ import annotations

import os
import signal
from collections.abc import Sequence
from pathlib import Path

import pytest

from tenure import Client
from tenure.cli.failures import ExitCode, report
from tenure.embedded import EmbeddedServer
from tenure.engine.driver import Driver
from tenure.errors import Unconfirmed
from tests.cli.conftest import Ended, Tenure
from tests.samples import failing, publish

SAMPLES = ("--import", "tests.samples")


def one_sentence(ended: Ended, code: int, *parts: str) -> None:
    """It says what happened and what to do, in one line, and prints nothing else."""
    assert (ended.code, ended.out) == (code, ""), ended
    (line,) = ended.err.splitlines()
    assert line.startswith("Error: ")
    for part in parts:
        assert part in line


@pytest.mark.parametrize(
    ("words", "parts"),
    [
        (["start", "publish"], ["recipe 'publish' is not known", "--import"]),
        (["start", *SAMPLES, "publishh"], ["recipe 'publishh' is not known", "publish@1"]),
        (["start", "--import", "tests.nothing", "x"], ["'tests.nothing' cannot be imported"]),
        (["start", *SAMPLES, "publish"], ["title"]),
        (["start", *SAMPLES, "publish", "{x"], ["argument 1 is no JSON", "'\"{x\"'"]),
        (["start", *SAMPLES, "publish", "Dune", "chapters=many"], ["chapters", "many"]),
        (["start", *SAMPLES, "publish", "Dune", "--needs", "cpu=lots"], ["cpu: 'lots'"]),
        (["start", *SAMPLES, "publish", "Dune", "--priority", "10"], ["priority 10", "0 (last) to 9"]),
        (["start", *SAMPLES, "publish", "Dune", "--wait", "--timeout", "soon"], ["--timeout: 'soon'"]),
    ],
)
def test_a_start_that_cannot_be_accepted_is_a_usage_error(
    tenure: Tenure, words: Sequence[str], parts: Sequence[str]
) -> None:
    one_sentence(tenure(*words), ExitCode.USAGE, *parts)


@pytest.mark.parametrize(
    ("words", "parts"),
    [
        (["show", "a/b"], ["'a/b' is no execution id"]),
        (["--url", "nowhere", "list"], ["'nowhere' must begin with redis://"]),
        (["--namespace", "a b", "list"], ["namespace 'a b'"]),
    ],
)
def test_a_question_that_cannot_be_asked_is_a_usage_error(
    tenure: Tenure, words: Sequence[str], parts: Sequence[str]
) -> None:
    one_sentence(tenure.here(*words), ExitCode.USAGE, *parts)


@pytest.mark.parametrize(
    "words",
    [
        ["nothing"],
        ["show"],
        ["list", "--status", "asleep"],
        ["list", "--limit", "0"],
        ["start", *SAMPLES, "publish", "Dune", "--timeout", "1s"],
    ],
)
def test_wrong_words_show_the_usage(tenure: Tenure, words: Sequence[str]) -> None:
    ended = tenure.here(*words)
    assert ended.code == ExitCode.USAGE
    assert "Usage: tenure" in ended.err
    assert "Error: " in ended.err


@pytest.mark.parametrize(
    "words",
    [["show", "gone"], ["events", "gone"], ["events", "-f", "gone"], ["explain", "gone"], ["replay", "gone"]],
)
def test_an_execution_that_is_not_there(tenure: Tenure, words: Sequence[str]) -> None:
    one_sentence(tenure.here(*words), ExitCode.NOT_FOUND, "execution gone is not known", "`tenure list`")


def test_an_id_that_is_taken(tenure: Tenure, client: Client) -> None:
    client.start(publish, "Dune", id="dune")
    ended = tenure("start", *SAMPLES, "publish", "Emma", "--id", "dune")
    one_sentence(ended, ExitCode.CONFLICT, "execution dune exists already", "another id")
    assert client.get("dune").snapshot().status == "pending"


def test_an_execution_that_failed_fails_who_waits_for_it(
    tenure: Tenure, client: Client, slot: Driver
) -> None:
    client.start(failing, "no ink", id="book")
    slot.drain()
    ended = tenure("start", *SAMPLES, "failing", "no ink", "--id", "book", "--wait")
    one_sentence(ended, ExitCode.FAILED, "execution book: ", "no ink", "`tenure show book`")


def test_an_execution_that_takes_longer_than_the_timeout(tenure: Tenure) -> None:
    ended = tenure("start", *SAMPLES, "publish", "Dune", "--id", "dune", "--wait", "--timeout", "100ms")
    one_sentence(ended, ExitCode.FAILED, "execution dune is still pending", "`tenure explain dune`")


def test_a_server_that_is_not_there(tenure: Tenure) -> None:
    one_sentence(tenure("--url", "redis://127.0.0.1:1", "list"), ExitCode.UNREACHABLE, "no server answers at")


def test_a_server_that_could_lose_data(tenure: Tenure, tmp_path: Path) -> None:
    with EmbeddedServer.attach(tmp_path, extra_args=["--maxmemory-policy", "allkeys-lru"]) as server:
        ended = tenure.here("--url", server.url, "list")
    one_sentence(ended, ExitCode.UNREACHABLE, "may evict keys")


def test_an_embedded_server_that_cannot_start(tenure: Tenure, tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    tenure.options = []
    ended = tenure("list", TENURE_FOLDER=str(tmp_path / "file"))
    one_sentence(ended, ExitCode.UNREACHABLE, "embedded server", str(tmp_path))


def test_a_server_that_goes_away_meanwhile(tenure: Tenure, tmp_path: Path) -> None:
    with EmbeddedServer.attach(tmp_path) as server:
        tenure.options = ["--url", server.url]
        assert tenure("start", *SAMPLES, "publish", "Dune", "--id", "dune").code == 0
        with tenure.begin("events", "dune", "-f") as process:
            assert process.stdout is not None
            assert "created" in process.stdout.readline()
            os.kill(int((tmp_path / "server.pid").read_text()), signal.SIGKILL)
            _, err = process.communicate(timeout=30)
        assert process.returncode == ExitCode.UNREACHABLE
        assert err.startswith("Error: the server does not answer")
        assert len(err.splitlines()) == 1


def test_a_lost_reply_is_a_store_that_cannot_be_reached(capsys: pytest.CaptureFixture[str]) -> None:
    assert report(Unconfirmed("no reply to 'start'")) is ExitCode.UNREACHABLE
    assert capsys.readouterr().err == "Error: no reply to 'start'\n"


def test_anything_else_is_one_sentence_too(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("TENURE_DEBUG", raising=False)
    assert report(KeyError("oops\x1b[2J")) is ExitCode.FAILED
    err = capsys.readouterr().err
    assert err.startswith("Error: unexpected KeyError: 'oops")
    assert "\x1b" not in err
    assert "TENURE_DEBUG=1" in err


def test_debugging_shows_where_an_error_was_raised(tenure: Tenure) -> None:
    ended = tenure("show", "gone", TENURE_DEBUG="1")
    assert ended.code == ExitCode.NOT_FOUND
    assert "Traceback" in ended.err
    assert ended.err.splitlines()[-1].startswith("Error: execution gone")
