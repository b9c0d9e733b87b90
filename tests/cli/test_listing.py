from __future__ import annotations

from datetime import datetime

import pytest

from tenure import Client, Needs
from tenure.cli.failures import ExitCode
from tenure.engine.driver import Driver
from tests.cli.conftest import Tenure
from tests.engine.site import Site
from tests.samples import failing, heavy, publish


def run_three(client: Client, slot: Driver) -> None:
    client.start(publish, "Dune", id="dune", priority=7)
    client.start(failing, "no ink\nnor paper", id="torn")
    client.start(heavy, id="big")
    slot.drain()


def test_the_newest_come_first(tenure: Tenure, client: Client, slot: Driver) -> None:
    run_three(client, slot)
    shown = tenure("list")
    assert shown.code == 0
    assert shown.lines[0].split() == [
        *("ID", "RECIPE", "STATUS", "WAITING", "FOR", "NEEDS", "CREATED", "TOOK", "ERROR")
    ]
    assert sorted(line.split()[0] for line in shown.lines[1:]) == ["big", "dune", "torn"]
    assert shown.rows("dune")[0][1:3] == ["publish@1", "completed"]
    assert shown.rows("big")[0][1:5] == ["heavy@1", "running", "awaiting_environment", "memory=64Gi"]
    assert shown.rows("torn")[0][-1] == "task 0:refuse failed: ValueError: no ink nor paper"


def test_json_has_every_key_always(tenure: Tenure, client: Client, slot: Driver) -> None:
    run_three(client, slot)
    rows = {row["id"]: row for row in tenure("list", "--json").data["executions"]}
    assert {frozenset(row) for row in rows.values()} == {
        frozenset(
            [
                *("id", "instance", "recipe", "version", "status", "reason", "correlation", "priority"),
                *("needs", "environment", "created_at", "started_at", "completed_at", "error"),
            ]
        )
    }
    assert rows["dune"]["priority"] == 7
    assert rows["dune"]["reason"] is None
    assert rows["big"]["reason"] == "awaiting_environment"
    assert rows["big"]["completed_at"] is None
    assert rows["dune"]["environment"] == {"status": "not_waiting", "routes": []}
    assert rows["big"]["environment"]["status"] == "specified"
    assert rows["big"]["environment"]["routes"] == [
        {
            "capability": "0:crunch",
            "reason": "awaiting_environment",
            "demand": "specified",
            "needs": {"memory": "64Gi"},
            "sources": {"memory": "task"},
            "required_by": {},
            "revision": 1,
            "handed_off": {},
            "demand_error": None,
        }
    ]
    assert rows["torn"]["error"] == "task 0:refuse failed: ValueError: no ink\nnor paper"
    for row in rows.values():
        offset = datetime.fromisoformat(row["created_at"]).utcoffset()
        assert offset is not None
        assert not offset


def test_only_those_of_a_status_and_only_so_many(tenure: Tenure, client: Client, slot: Driver) -> None:
    run_three(client, slot)
    assert [row["id"] for row in tenure.here("list", "--status", "failed", "--json").data["executions"]] == [
        "torn"
    ]
    assert len(tenure.here("list", "--limit", "2", "--json").data["executions"]) == 2


def test_what_cannot_be_read_is_listed_as_that(
    tenure: Tenure, client: Client, slot: Driver, records: Site
) -> None:
    for word, demand in (("malformed", "[]"), ("unsupported", '{"galaxy":{}}'), ("unresolved", None)):
        records.edit_record(client.start(publish, "Dune", id=word), demand=demand)
    shown = tenure.here("list")
    rows = {row["id"]: row for row in tenure.here("list", "--json").data["executions"]}
    for word, row in rows.items():
        assert row["environment"]["status"] == word
        assert shown.rows(word)[0][4] == word


def test_what_an_allocation_would_meet(tenure: Tenure, client: Client, slot: Driver, records: Site) -> None:
    run_three(client, slot)
    records.edit_record(client.start(publish, "Dune", id="broken"), demand="[]")
    records.edit_record(client.start(publish, "Dune", id="unresolved"), demand=None)
    client.start(publish, "Dune", id="easy")

    def fitting(*words: str) -> set[str]:
        found = tenure.here("list", "--json", "--compatible-with", *words).data["executions"]
        return {row["id"] for row in found}

    assert fitting("cpu=4,memory=16Gi") == {"easy"}
    assert fitting("memory=64Gi") == {"easy", "big"}
    assert fitting("memory=64Gi", "--include-unresolved") == {"easy", "big", "unresolved"}
    assert fitting("memory=64Gi", "--status", "running") == {"big"}
    none = tenure.here("list", "--compatible-with", "memory=64Gi", "--status", "failed")
    assert none.out == "instance default has no executions that are failed and would fit\n"


def test_needs_are_whole_where_nobody_looks(tenure: Tenure, client: Client) -> None:
    whole = "cpu=4,memory=64Gi,platform=linux/amd64,label.disk=ssd,label.zone=eu"
    client.start(publish, "Dune", id="dune", needs=Needs.parse(whole))
    assert tenure.here("list").rows("dune")[0][4] == whole


def test_a_message_about_no_facts_speaks_of_what_was_given(tenure: Tenure) -> None:
    assert "image_id" not in tenure.here("list", "--compatible-with", "").err
    assert "image_id" in tenure.here("list", "--compatible-with", "image.image_id=sha256:0a").err


def test_the_help_says_what_is_listed_and_whose_time_it_is(tenure: Tenure) -> None:
    said = " ".join(tenure.here("list", "--help").out.split())
    for part in ("could take something now", "never published", "time zone of this machine", "are UTC"):
        assert part in said


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--compatible-with", ""], "at least one fact"),
        (["--compatible-with", " , "], "nothing but commas"),
        (["--compatible-with", "image.image_id=sha256:0a"], "at least one fact"),
        (["--compatible-with", "memory=much"], "'much' is no quantity"),
        (["--compatible-with", "magic=1"], "Invalid value for --compatible-with: 'magic' is no property"),
        (["--compatible-with", "cpu"], "Invalid value for --compatible-with: 'cpu' is not name=value"),
        (["--include-unresolved"], "--compatible-with, which is not given"),
        (["--after", "there"], "'there' is no cursor"),
        (["--after", ""], "'' is no cursor"),
        (["--limit", "0"], "0 is not in the range"),
    ],
)
def test_what_cannot_be_asked_for_is_a_usage_error(tenure: Tenure, words: list[str], said: str) -> None:
    ended = tenure.here("list", *words)
    assert ended.code == ExitCode.USAGE
    assert said in ended.err


def test_one_page_leads_to_the_next(tenure: Tenure, client: Client) -> None:
    for number in range(5):
        client.start(publish, "Dune", id=f"e{number}")
    first = tenure.here("list", "--limit", "3", "--json").data
    assert [row["id"] for row in first["executions"]] == ["e4", "e3", "e2"]
    client.start(publish, "Dune", id="new")
    second = tenure.here("list", "--limit", "3", "--json", "--after", first["next"]).data
    assert [row["id"] for row in second["executions"]] == ["e1", "e0"]
    assert second["next"] is None

    shown = tenure.here("list", "--limit", "2")
    assert [line.split()[0] for line in shown.lines[1:]] == ["new", "e4"]
    (cursor,) = [word for word in shown.err.split() if word.endswith("/e4")]
    rest = tenure.here("list", "--after", cursor)
    assert [line.split()[0] for line in rest.lines[1:]] == ["e3", "e2", "e1", "e0"]
    assert rest.err == ""
    assert tenure.here("list", "--after", "1/e0").out == "instance default has no more executions\n"


def test_nothing_to_list_is_said(tenure: Tenure) -> None:
    assert (
        tenure.here("list", "--status", "failed").out
        == "instance default has no executions that are failed\n"
    )
