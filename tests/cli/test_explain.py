from __future__ import annotations

from tenure import Client
from tenure.engine.driver import Driver
from tests.cli.conftest import Tenure
from tests.samples import heavy, heavy_recipe, publish


def test_what_a_task_lacks_and_where_it_almost_fits(tenure: Tenure, client: Client, slot: Driver) -> None:
    client.start(heavy, id="big")
    slot.drain()
    shown = tenure("explain", "big")
    assert shown.code == 0
    assert [row[1] for row in shown.rows("waiting for")] == [
        *("awaiting_environment", "awaiting_environment", "awaiting_tasks")
    ]
    assert "no worker can take 0:crunch" in shown.out
    assert "memory=64Gi" in shown.out
    assert "pool p" in shown.out
    data = tenure("explain", "big", "--json").data
    assert data["reason"] == "awaiting_environment"
    assert [route["capability"] for route in data["routes"]] == ["0:crunch", "recipe"]
    assert data["routes"][0]["nearest"]


def test_nobody_is_there(tenure: Tenure, client: Client) -> None:
    client.start(heavy_recipe, id="big")
    assert "start one with `tenure worker`" in tenure.here("explain", "big").out


def test_an_execution_that_has_ended(tenure: Tenure, client: Client, slot: Driver) -> None:
    client.start(publish, "Dune", id="dune")
    slot.drain()
    shown = tenure.here("explain", "dune")
    assert shown.rows("because") == [["because", "it ended as completed"]]
    assert tenure.here("explain", "dune", "--json").data["routes"] == []
