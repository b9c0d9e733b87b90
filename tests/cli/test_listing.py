from __future__ import annotations

from datetime import datetime

from tenure import Client
from tenure.engine.driver import Driver
from tests.cli.conftest import Tenure
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
    assert shown.lines[0].split() == ["ID", "RECIPE", "STATUS", "WAITING", "FOR", "CREATED", "TOOK", "ERROR"]
    assert sorted(line.split()[0] for line in shown.lines[1:]) == ["big", "dune", "torn"]
    assert shown.rows("dune")[0][1:3] == ["publish@1", "completed"]
    assert shown.rows("big")[0][1:4] == ["heavy@1", "running", "awaiting_environment"]
    assert shown.rows("torn")[0][-1] == "task 0:refuse failed: ValueError: no ink nor paper"


def test_json_has_every_key_always(tenure: Tenure, client: Client, slot: Driver) -> None:
    run_three(client, slot)
    rows = {row["id"]: row for row in tenure("list", "--json").data["executions"]}
    assert {frozenset(row) for row in rows.values()} == {
        frozenset(
            [
                *("id", "instance", "recipe", "version", "status", "reason", "correlation", "priority"),
                *("needs", "created_at", "started_at", "completed_at", "error"),
            ]
        )
    }
    assert rows["dune"]["priority"] == 7
    assert rows["dune"]["reason"] is None
    assert rows["big"]["reason"] == "awaiting_environment"
    assert rows["big"]["completed_at"] is None
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


def test_nothing_to_list_is_said(tenure: Tenure) -> None:
    assert (
        tenure.here("list", "--status", "failed").out
        == "instance default has no executions that are failed\n"
    )
