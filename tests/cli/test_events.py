from __future__ import annotations

import json

import pytest

from tenure import Client
from tenure.cli.commands.events import details
from tenure.engine.driver import Driver
from tenure.store.events import GAP, Event
from tests.cli.conftest import Tenure
from tests.samples import publish, stumbling


def test_events_are_in_order_with_what_they_carry(tenure: Tenure, client: Client, slot: Driver) -> None:
    client.start(publish, "Dune", id="dune")
    client.start(stumbling, id="walk")
    slot.drain()
    shown = tenure("events", "dune")
    assert shown.code == 0
    assert [int(line.split()[0]) for line in shown.lines] == list(range(1, len(shown.lines) + 1))
    assert shown.lines[0].split()[2:] == ["created", "publish"]
    assert "1/2 half way" in shown.out
    assert "drafted Dune 1" in shown.out
    assert shown.lines[-1].split()[2] == "execution_completed"
    assert "ConnectionError: attempt 1 stumbled, next in 1 ms" in tenure.here("events", "walk").out


def test_json_is_one_object_per_line(tenure: Tenure, client: Client, slot: Driver) -> None:
    client.start(publish, "Dune", id="dune")
    slot.drain()
    ended = tenure("events", "dune", "--json", "--after", "3")
    rows = [json.loads(line) for line in ended.lines]
    assert {tuple(row) for row in rows} == {("seq", "kind", "at", "capability", "data")}
    assert rows[0]["seq"] == 4
    assert rows[-1]["kind"] == "execution_completed"
    assert rows[-1]["at"].endswith("+00:00")


def test_following_ends_with_the_execution(tenure: Tenure, client: Client, slot: Driver) -> None:
    client.start(publish, "Dune", id="dune")
    with tenure.begin("events", "dune", "-f", "--json") as process:
        assert process.stdout is not None
        assert process.stderr is not None
        first = process.stdout.readline()
        slot.drain()
        # Not `communicate`, which loses what is buffered behind the first line.
        rest, err = process.stdout.readlines(), process.stderr.read()
    assert (process.returncode, err) == (0, "")
    rows = [json.loads(line) for line in [first, *rest]]
    assert [row["seq"] for row in rows] == list(range(1, len(rows) + 1))
    assert rows[-1]["kind"] == "execution_completed"


@pytest.mark.parametrize(
    ("kind", "data", "words"),
    [
        (GAP, {"lost": 3}, "3 events are no longer kept"),
        ("lost", {"attempt": 2, "cause": "killed by signal 9", "token": 7}, "attempt 2, killed by signal 9"),
        (
            "handoff",
            {"attempt": 1, "reason": "environment_required", "mismatches": ["gpu: needs 1, unknown here"]},
            "environment_required, gpu: needs 1, unknown here",
        ),
        ("completed", {"attempt": 1, "ms": 0}, "took 0 ms"),
        ("execution_running", {}, ""),
    ],
)
def test_details_in_words(kind: str, data: dict[str, object], words: str) -> None:
    assert details(Event(1, kind, None, None, data)) == words
