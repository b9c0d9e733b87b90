from __future__ import annotations

import pytest

from tenure import Allocation, Client, Needs, Run, recipe, task
from tenure.engine.definitions import Definitions
from tenure.engine.driver import Driver
from tenure.wiring import Store
from tests.cli.conftest import Tenure
from tests.engine.site import Site
from tests.harness import working_slot
from tests.samples import DEFINITIONS, heavy, heavy_recipe, publish


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


def test_who_asks_for_what_is_missing_and_who_had_too_little(
    tenure: Tenure, client: Client, store: Store
) -> None:
    @task
    def light() -> None: ...

    @recipe
    def scoped(run: Run) -> None:
        with run.needs(memory="8Gi"):
            run.call(light, needs=Needs(label={"zone": "eu"}))

    slot = working_slot(store, Definitions.of([light, scoped]), allocation=Allocation(memory="2Gi"))
    client.start(scoped, id="big")
    slot.drain()
    shown = tenure.here("explain", "big")
    lacks = "memory: needs 8Gi (scope), has 2Gi; label.zone: needs eu (task), unknown here"
    assert shown.rows("nearest")[0][1].endswith(lacks)
    assert lacks in shown.rows("because")[0][1]
    assert shown.rows("needs") == [["needs", "memory=8Gi (scope), label.zone=eu (task)"]]
    assert shown.rows("handed off by a slot with") == [["handed off by a slot with", "memory=2Gi"]]
    route = tenure.here("explain", "big", "--json").data["routes"][0]
    assert route["needs"] == {"memory": "8Gi", "label": {"zone": "eu"}}
    assert route["sources"] == {"memory": "scope", "label": {"zone": "task"}}
    assert (route["demand"], route["handed_off"]) == ("specified", {"memory": "2Gi"})
    (queue,) = store.duties.queues()
    assert route["nearest"] == [
        {
            "pool": "p",
            "queue": queue,
            "sessions": 1,
            "code_missing": False,
            "handed_off": True,
            "mismatches": [
                {"property": "memory", "required": "8Gi", "actual": "2Gi"},
                {"property": "label.zone", "required": "eu", "actual": None},
            ],
        }
    ]


def test_of_a_pinned_image_the_digest_is_what_is_unknown(
    tenure: Tenure, client: Client, store: Store
) -> None:
    pinned = f"a@sha256:{'0' * 64}"
    working_slot(store, DEFINITIONS, allocation=Allocation(image="a:1"))
    client.start(publish, "Dune", id="dune", needs=Needs(image=pinned))
    lacks = f"image: needs {pinned} (job), its manifest digest is unknown here"
    assert tenure.here("explain", "dune").rows("nearest")[0][1].endswith(lacks)
    client.start(publish, "Dune", id="tag", needs=Needs(image="b:2"))
    assert "image: needs b:2 (job), has a:1" in tenure.here("explain", "tag").out


@pytest.mark.parametrize(
    ("demand", "words"),
    [('{"at":7}', ("malformed", "`tenure cancel` ends it")), ('{"galaxy":{}}', ("unsupported", "upgrade"))],
)
def test_a_demand_that_cannot_be_read_is_why(
    tenure: Tenure, client: Client, records: Site, demand: str, words: tuple[str, str]
) -> None:
    """Not that no worker runs: none would take it."""
    status, remedy = words
    records.edit_record(client.start(publish, "Dune", id="dune"), demand=demand)
    ((_, because),) = tenure.here("explain", "dune").rows("because")
    assert because.startswith(f"what the recipe demands is {status}: the")
    assert "dune" not in because
    assert remedy in because
    assert "no scheduler is leading" not in because
    assert tenure.here("explain", "dune").rows("needs") == [["needs", status]]


def test_nobody_is_there(tenure: Tenure, client: Client) -> None:
    client.start(heavy_recipe, id="big")
    assert "start one with `tenure worker`" in tenure.here("explain", "big").out


def test_an_execution_that_has_ended(tenure: Tenure, client: Client, slot: Driver) -> None:
    client.start(publish, "Dune", id="dune")
    slot.drain()
    shown = tenure.here("explain", "dune")
    assert shown.rows("because") == [["because", "it ended as completed"]]
    assert tenure.here("explain", "dune", "--json").data["routes"] == []
