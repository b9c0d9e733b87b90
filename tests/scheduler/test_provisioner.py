"""The hook itself: what it is given, what it takes for acceptance, and that it cannot hold anybody up."""

from __future__ import annotations

import json
import socket
import threading
import time
from collections.abc import Iterator
from contextlib import closing
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from tenure.errors import InvalidInput
from tenure.store.outbox import OutboxEvent
from tenure_scheduler.provisioner import Accepted, Refused, document, provisioner_of
from tests.processes import is_alive
from tests.scheduler.hooks import Script, Web
from tests.waiting import wait_until

LONG = timedelta(seconds=30)
SHORT = timedelta(seconds=0.5)


@pytest.fixture
def web() -> Iterator[Web]:
    with Web() as one:
        yield one


def deliver(text: str, *, timeout: timedelta = LONG, told: bytes = b'{"id": "1"}') -> Accepted | Refused:
    return provisioner_of(text, timeout=timeout).deliver(told)


def reason(outcome: Accepted | Refused) -> str:
    assert isinstance(outcome, Refused), outcome
    return outcome.reason


# -- what it is told -----------------------------------------------------------------------------------------


def test_the_body_stands_beside_what_says_which_event_it_is_and_never_in_its_place() -> None:
    event = OutboxEvent(
        id="17",
        at=datetime(2026, 1, 2, 3, 4, 5, 6789, tzinfo=UTC),
        instance="alice",
        execution="e",
        body={"kind": "environment_required", "id": "other", "namespace": "other", "text": "ü\ud800"},
        tries=2,
        reason="no",
    )
    told = document(event, "books")
    assert b"\n" not in told
    assert json.loads(told) == {
        "id": "17",
        "at": "2026-01-02T03:04:05.006Z",
        "namespace": "books",
        "instance": "alice",
        "execution": "e",
        "kind": "environment_required",
        "text": "ü\ud800",
    }


# -- commands ------------------------------------------------------------------------------------------------


def test_a_command_gets_one_line_and_its_arguments_as_a_shell_would_split_them(tmp_path: Path) -> None:
    script = Script(tmp_path / "a folder", 'echo "$#:$1:$2"')
    outcome = deliver(f"'{script.command}' 'two words' '$HOME;'")
    assert outcome == Accepted("2:two words:$HOME;")
    assert script.raw == '{"id": "1"}\n'


def test_a_command_that_fails_is_quoted_by_the_end_of_what_it_printed(tmp_path: Path) -> None:
    script = Script(tmp_path, "seq 100000; printf 'quota\\033[31m exceeded\\n\\n' >&2; exit 3")
    said = reason(deliver(script.command))
    assert said.startswith("the command ended with code 3: ")
    assert said.endswith("quota [31m exceeded")
    assert len(said) < 600


def test_a_command_that_is_killed_has_not_accepted(tmp_path: Path) -> None:
    assert reason(deliver(Script(tmp_path, "kill -9 $$").command)) == "the command was killed (9)"


def test_a_command_that_hangs_is_killed_with_its_children(tmp_path: Path) -> None:
    script = Script(
        tmp_path, "sleep 600 &\necho $! > child\necho $$ > self\necho started\ntrap '' TERM\nwait"
    )
    said = reason(deliver(script.command, timeout=timedelta(seconds=1)))
    assert said == "the command took more than 1 s and was killed: started"
    pids = [script.pid("self"), script.pid("child")]
    wait_until(lambda: not any(map(is_alive, pids)), 5, "both are gone")


def test_a_child_that_keeps_the_output_open_and_input_that_nobody_reads_hold_nobody_up(
    tmp_path: Path,
) -> None:
    path = tmp_path / "hook"
    path.write_text(f"#!/bin/sh\nsleep 600 &\necho $! > {tmp_path}/child\n")
    path.chmod(0o755)
    began = time.monotonic()
    assert deliver(str(path), told=b"x" * 1_000_000) == Accepted()
    assert time.monotonic() - began < 10
    provisioner_of(f"kill {(tmp_path / 'child').read_text()}", timeout=LONG).deliver(b"")


def test_a_command_that_has_gone_is_a_refusal(tmp_path: Path) -> None:
    script = Script(tmp_path)
    hook = provisioner_of(script.command, timeout=LONG)
    script.path.unlink()
    assert "cannot be run" in reason(hook.deliver(b"{}"))


def test_closing_kills_what_runs_and_starts_no_more(tmp_path: Path) -> None:
    script = Script(tmp_path, "echo $$ > self\nsleep 600")
    hook = provisioner_of(script.command, timeout=LONG)
    outcomes: list[Accepted | Refused] = []
    thread = threading.Thread(target=lambda: outcomes.append(hook.deliver(b"{}")))
    thread.start()
    wait_until(lambda: script.pid("self"), 10, "it runs")
    hook.close()
    thread.join(10)
    assert reason(outcomes[0]) == "the command was killed (9)"
    assert reason(hook.deliver(b"{}")) == "the scheduler is stopping"


# -- webhooks ------------------------------------------------------------------------------------------------


def test_a_webhook_is_posted_json(web: Web) -> None:
    assert deliver(f"{web.url}/events?key=1", told=b'{"id": "1"}') == Accepted()
    [asked] = web.asked
    assert (asked.method, asked.path, asked.body) == ("POST", "/events?key=1", b'{"id": "1"}')
    assert asked.headers["Content-Type"] == "application/json"


@pytest.mark.parametrize("status", [400, 404, 500, 503])
def test_an_answer_that_is_no_success_is_quoted(web: Web, status: int) -> None:
    web.answer = lambda _path: (status, {})
    said = reason(deliver(web.url))
    assert said.startswith(f"the webhook answered {status} ")
    assert said.endswith(": not today")


@pytest.mark.parametrize("status", [301, 302, 307, 308])
def test_a_redirect_is_followed_with_the_event(web: Web, status: int) -> None:
    web.answer = lambda path: (202, {}) if path == "/new" else (status, {"Location": "/new"})
    assert deliver(f"{web.url}/old") == Accepted()
    assert [(asked.method, asked.path, asked.body) for asked in web.asked] == [
        ("POST", path, b'{"id": "1"}') for path in ("/old", "/new")
    ]


@pytest.mark.parametrize(
    ("status", "location"),
    [(307, "https://127.0.0.1:1/"), (302, "ftp://127.0.0.1/"), (301, "file:///etc/passwd"), (303, "/new")],
)
def test_a_redirect_to_another_scheme_or_method_is_refused(web: Web, status: int, location: str) -> None:
    web.answer = lambda _path: (status, {"Location": location})
    said = reason(deliver(web.url))
    assert str(status) in said
    assert location in said
    assert len(web.asked) == 1


def test_redirects_in_a_circle_end(web: Web) -> None:
    web.answer = lambda _path: (307, {"Location": "/"})
    assert "307" in reason(deliver(web.url))


def test_a_webhook_that_does_not_answer_is_left_at_the_timeout() -> None:
    with closing(socket.create_server(("127.0.0.1", 0))) as silent:
        url = f"http://127.0.0.1:{silent.getsockname()[1]}"
        assert reason(deliver(url, timeout=SHORT)) == "the webhook did not answer within 0.5 s"
    assert "cannot be reached" in reason(deliver(url))


def test_what_speaks_no_http_is_a_refusal() -> None:
    with closing(socket.create_server(("127.0.0.1", 0))) as server:

        def speak() -> None:
            connection, _ = server.accept()
            with connection:
                connection.recv(65536)
                connection.sendall(b"SSH-2.0\r\n\r\n")

        threading.Thread(target=speak, daemon=True).start()
        assert "gave no answer" in reason(deliver(f"http://127.0.0.1:{server.getsockname()[1]}"))


# -- what is no hook -----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "text",
    [
        *("", "   ", "'", "no-such-command-anywhere --x", "/no/such/path", "ftp://host/", "/"),
        *("http://", "https:///path", "http://[::1", "http://host:port/", "http://host:99999/", "http://h:0"),
        *("http://name:secret@host/", "http://host/a b", "http://host/ü", "http://host/\n"),
    ],
)
def test_what_can_be_no_hook_is_refused(text: str) -> None:
    with pytest.raises(InvalidInput) as refused:
        provisioner_of(text, timeout=LONG)
    assert "secret" not in str(refused.value)


def test_a_refusal_says_what_to_do(tmp_path: Path) -> None:
    (script := tmp_path / "scale.sh").write_text("#!/bin/sh\n")
    for text, said in (
        ("ftp://host/", "begins with http:// or https://"),
        ("cat && false", "sh -c '...'"),
        (str(script), "is not executable; chmod +x it"),
        ("no-such-command-anywhere", "there is no command"),
    ):
        with pytest.raises(InvalidInput) as refused:
            provisioner_of(text, timeout=LONG)
        assert said in str(refused.value)
