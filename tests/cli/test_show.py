from __future__ import annotations

from typing import Any

import pytest

from tenure import Allocation, Client, Needs, Run, Settings, TaskContext, recipe, task
from tenure.engine.definitions import Definitions
from tenure.engine.driver import Driver
from tenure.errors import Unconfirmed
from tenure.wiring import Store, open_store
from tests.cli.conftest import Ended, Tenure
from tests.engine.site import Site
from tests.harness import queue_of, working_slot
from tests.samples import DEFINITIONS, billing, heavy, publish, squares, stumbling


def test_a_chain_that_completed(tenure: Tenure, client: Client, slot: Driver) -> None:
    client.start(publish, "Dune", id="dune", correlation_id="c7")
    slot.drain()
    shown = tenure("show", "dune")
    assert shown.code == 0
    assert [row[1] for row in shown.rows("recipe")] == ["publish@1", "completed"]
    assert shown.rows("correlation") == [["correlation", "c7"]]
    assert shown.rows("1:draft")[0][:3] == ["1:draft", "completed", "1"]
    assert shown.lines[-2:] == ["result", '"DUNE 1 | DUNE 2"']
    assert "attempts" not in shown.out


def test_json_of_an_execution(tenure: Tenure, client: Client, slot: Driver) -> None:
    client.start(publish, "Dune", id="dune")
    slot.drain()
    data = tenure("show", "dune", "--json").data
    assert [one["capability"] for one in data["capabilities"]] == [
        "0:outline",
        "1:draft",
        "2:draft",
        "3:bind",
    ]
    assert set(data["capabilities"][0]) == set(data["recipe_route"])
    assert data["recipe_route"]["status"] == "completed"
    assert data["capabilities"][0]["needs"] == {}
    assert data["attempts"] == data["maps"] == []
    assert data["result"] == "DUNE 1 | DUNE 2"


def test_attempts_have_their_causes(tenure: Tenure, client: Client, slot: Driver) -> None:
    client.start(stumbling, id="walk")
    slot.drain()
    shown = tenure.here("show", "walk")
    assert [row[1:3] for row in shown.rows("0:stumble")] == [
        ["completed", "3"],
        ["1", "failed"],
        ["2", "failed"],
    ]
    assert shown.rows("0:stumble")[1][-1] == "ConnectionError: attempt 1 stumbled"
    attempts = tenure.here("show", "walk", "--json").data["attempts"]
    assert [(one["attempt"], one["outcome"], one["cause"]) for one in attempts] == [
        (1, "failed", "ConnectionError: attempt 1 stumbled"),
        (2, "failed", "ConnectionError: attempt 2 stumbled"),
    ]


def test_an_unknown_outcome_shows_the_cause_of_death(
    tenure: Tenure, client: Client, store: Store, slot: Driver
) -> None:
    lose_a_charge(client, store, slot)
    shown = tenure.here("show", "bill")
    assert shown.rows("waiting for") == [["waiting for", "unknown_outcome"]]
    unknown, lost = shown.rows("0:charge")
    assert unknown[1:4] == ["unknown", "1", "unknown"]
    assert lost[1:3] == ["1", "lost"]
    assert shown.out.count("killed by signal 9") == 2


def lose_a_charge(client: Client, store: Store, slot: Driver) -> None:
    """Let a slot die in the middle of a task that may run only once."""
    client.start(billing, 3, vanish=True, id="bill")
    with pytest.raises(Unconfirmed):
        slot.drain()
    store.sessions.abandon(
        "l1", queue_of(store, DEFINITIONS), cause="killed by signal 9", charge="task", run=store.run_id()
    )


def test_a_place_says_where_a_route_is(tenure: Tenure, client: Client, slot: Driver) -> None:
    client.start(heavy, id="big", priority=9)
    slot.drain()
    client.start(publish, "Dune", id="dune")
    assert tenure.here("show", "big").rows("0:crunch")[0] == ["0:crunch", "ready", "1", "environment"]
    assert tenure.here("show", "dune").rows("recipe")[1][3].startswith("waiting in ")


def test_a_demand_has_its_sources_and_who_handed_it_off(tenure: Tenure, client: Client, store: Store) -> None:
    allocation = Allocation(memory="2Gi", label={"zone": "eu"})
    slot = working_slot(store, DEFINITIONS, allocation=allocation)
    client.start(heavy, id="big", needs=Needs(cpu="2"))
    slot.drain()
    assert tenure.here("show", "big").rows("recipe")[-1] == ["recipe", "specified", "1", "cpu=2 (job)"]
    slot = working_slot(
        store, DEFINITIONS, allocation=Allocation(cpu="2", memory="2Gi"), session="other", life="l2"
    )
    client.start(heavy, id="huge", needs=Needs(cpu="2"))
    slot.drain()
    assert tenure.here("show", "huge").rows("0:crunch")[-1] == [
        *("0:crunch", "specified", "1", "cpu=2 (job), memory=64Gi (task)", "cpu=2,memory=2Gi")
    ]
    (one,) = tenure.here("show", "huge", "--json").data["capabilities"]
    assert one["needs"] == {"cpu": "2", "memory": "64Gi"}
    assert one["sources"] == {"cpu": "job", "memory": "task"}
    assert (one["demand"], one["revision"]) == ("specified", 1)
    assert one["handed_off"] == {"cpu": "2", "memory": "2Gi"}


def test_a_suspension_is_named_in_what_the_job_demands(tenure: Tenure, client: Client, store: Store) -> None:
    @task
    def susp(ctx: TaskContext) -> None:
        ctx.suspend(Needs(memory="64Gi"))

    @recipe
    def suspending(run: Run) -> None:
        run.call(susp)
        run.call(susp)

    slot = working_slot(store, Definitions.of([susp, suspending]), allocation=Allocation(memory="2Gi"))
    client.start(suspending, id="big")
    slot.drain()
    assert tenure.here("show", "big").rows("recipe")[-1][3:] == [
        *("memory=64Gi (job, by 0:susp)", "memory=2Gi")
    ]
    data = tenure.here("show", "big", "--json").data
    assert data["recipe_route"]["required_by"] == {"memory": "0:susp"}
    assert data["capabilities"][0]["required_by"] == {}
    assert "memory: needs 64Gi (job, by 0:susp), has 2Gi" in tenure.here("explain", "big").out
    (handoff,) = [line for line in tenure.here("events", "big").lines if "handoff" in line]
    assert "environment_required, required by 0:susp, memory: needs 64Gi, has 2Gi" in handoff


def test_a_demand_that_cannot_be_read_is_said(
    tenure: Tenure, client: Client, slot: Driver, records: Site
) -> None:
    handle = client.start(publish, "Dune", id="dune")
    records.edit_record(handle, demand='{"job":{"memory":"lots"}}')
    shown = tenure.here("show", "dune")
    assert shown.rows("recipe")[-1][1:3] == ["malformed", "1"]
    assert "'lots' is no quantity" in shown.rows("recipe")[-1][3]
    data = tenure.here("show", "dune", "--json").data
    assert data["environment"]["status"] == data["recipe_route"]["demand"] == "malformed"
    assert data["recipe_route"]["needs"] is None


@pytest.mark.parametrize(
    ("stored", "words"),
    [
        ("{", ("its requirements: it cannot be read", "the bytes are kept; `tenure cancel` ends it")),
        ('{"quantum":"1"}', ("its requirements: stored needs have", "upgrade this process")),
    ],
)
def test_requirements_that_cannot_be_read_come_with_what_to_do(
    tenure: Tenure, client: Client, store: Store, stored: str, words: tuple[str, str]
) -> None:
    client.start(publish, "Dune", id="dune")
    store.client.hset(store.keys("execution", "default", "dune"), "job_needs", stored)
    for command in ("show", "explain"):
        shown = tenure.here(command, "dune")
        assert shown.code == 1
        for word in words:
            assert word in shown.err
    assert tenure.here("cancel", "dune").code == 0


def test_what_is_no_route_demands_nothing(tenure: Tenure, url: str, namespace: str) -> None:
    """Recorded values and timers are capabilities as well, and need no slot."""

    @recipe
    def nap(run: Run) -> None:
        run.now()
        run.sleep("1h")

    with open_store(url, namespace=namespace) as store:
        slot = working_slot(store, Definitions.of([nap]))
        Client(store=store).start(nap, id="nap")
        slot.drain()
    data = tenure.here("show", "nap", "--json").data
    assert [(one["demand"], one["needs"]) for one in data["capabilities"]] == [(None, None), (None, None)]
    assert data["recipe_route"]["demand"] == "unspecified"
    assert "demands" not in tenure.here("show", "nap", "--all").out


def test_a_long_map_is_summed_up(tenure: Tenure, client: Client, slot: Driver) -> None:
    client.start(squares, 30, 7, id="many")
    client.start(squares, 3, id="few")
    slot.drain()
    shown = tenure.here("show", "many")
    (row,) = [line for line in shown.lines if line.startswith("0:square")]
    assert "1 failed" in row
    assert row.endswith("0:square:7: ValueError: 7 is refused")
    assert (
        len([line for line in tenure.here("show", "many", "--all").lines if line.startswith("0:square:")])
        == 30
    )
    assert [line.split()[0] for line in tenure.here("show", "few").lines if line.startswith("0:")] == [
        *("0:square", "0:square:0", "0:square:1", "0:square:2")
    ]
    data = tenure.here("show", "many", "--json").data
    assert len(data["capabilities"]) == 30
    assert data["maps"][0]["size"] == 30
    assert data["maps"][0]["status"] == "failed"
    assert sum(data["maps"][0]["counts"].values()) == 30


def look_while_it_runs(tenure: Tenure, url: str, namespace: str, *words: str) -> Ended:
    """`tenure show` within item 20 of a map of 40 that has five open at a time."""
    seen: list[Ended] = []

    @task
    def step(number: int, ctx: TaskContext) -> int:
        if number == 20:
            ctx.progress(4, 4, "looking")
            seen.append(tenure("show", "walk", *words))
        return number

    @recipe
    def walk(run: Run) -> int:
        return len(run.map(step, range(40)))

    with open_store(url, namespace=namespace, settings=Settings(window=5)) as store:
        slot = working_slot(store, Definitions.of([step, walk]))
        Client(store=store).start(walk, id="walk")
        slot.drain()
    return seen[0]


def test_work_in_progress(tenure: Tenure, url: str, namespace: str) -> None:
    shown = look_while_it_runs(tenure, url, namespace, "--all")
    assert "40 items: 20 completed, 1 running, 4 ready, 15 to come" in shown.out
    assert shown.rows("0:step:20") == [["0:step:20", "running", "1", "leased by s", "4/4 looking"]]


def test_a_long_result_is_cut_for_people_only(tenure: Tenure, url: str, namespace: str) -> None:
    @recipe
    def long(run: Run) -> dict[str, Any]:
        return {"when": run.now(), "text": "é" * 5000, "raw": b"\x00", "not a number": float("nan")}

    with open_store(url, namespace=namespace) as store:
        slot = working_slot(store, Definitions.of([long]))
        Client(store=store).start(long, id="long")
        slot.drain()
    shown = tenure.here("show", "long")
    assert "--all shows them" in shown.lines[-1]
    assert "é" * 5000 in tenure.here("show", "long", "--all").out
    result = tenure.here("show", "long", "--json").data["result"]
    assert result["text"] == "é" * 5000
    assert result["raw"] == "AA=="
    assert result["not a number"] == "nan"
    assert result["when"].endswith("+00:00")


def test_a_result_that_cannot_be_read_does_not_hide_the_rest(
    tenure: Tenure, client: Client, store: Store, slot: Driver
) -> None:
    client.start(publish, "Dune", id="dune")
    slot.drain()
    store.client.hset(store.keys("results", "default", "dune"), "recipe", b"\xffjunk")
    for words in (["--json"], []):
        shown = tenure.here("show", "dune", *words)
        assert shown.code == 1
        assert "3:bind" in shown.out
        assert shown.err.startswith(
            "Error: execution dune: its result: the stored data has schema version 255"
        )
