"""`tenure replay`: verdicts, exit codes, and a deploy that would break what runs."""

from __future__ import annotations

import json
import shlex
import subprocess
from pathlib import Path
from typing import Any

import pytest

from tenure import Client, Needs, Run, new_execution, recipe, task
from tenure.engine.definitions import Definitions, RecipeDefinition
from tenure.engine.driver import Driver
from tenure.model.allocation import Allocation
from tenure.model.blueprint import ExecutionBlueprint
from tenure.wiring import Store
from tests.cli.conftest import Ended, Tenure
from tests.client.stored import dump
from tests.engine.site import Site
from tests.harness import working_slot
from tests.samples import DEFINITIONS, failing, heavy, publish, squares

SAMPLES = ("--import", "tests.samples")

SHOP = """
import os
import subprocess

from tenure import Needs, Run, recipe, task

print("the module prints")
os.write(1, b"and writes\\n")


@task
def pick(item: str) -> str:
    raise AssertionError("a task has run")


@task(needs=Needs(memory="64Gi"))
def pack(item: str) -> str:
    raise AssertionError("a task has run")


@recipe
def kept(run: Run, item: str) -> str:
    print("the recipe prints", flush=True)
    os.write(1, b"it writes\\n")
    subprocess.run(["echo", "so does a program"], check=True)
    return run.call(pack, run.call(pick, item))


@recipe
def swapped(run: Run, item: str) -> str:
    return run.call(pick, run.call(pack, item))


@recipe
def broken(run: Run, item: str) -> str:
    raise LookupError(run.call(pick, item))


@recipe
def narrowed(run: Run, item: str, box: int) -> str:
    return item


@recipe(version="2")
def gone(run: Run, item: str) -> str:
    return item
"""


@task
def pick(item: str) -> str:
    return f"picked {item}"


@task(needs=Needs(memory="64Gi"))
def pack(item: str) -> str:
    return f"packed {item}"


def order(name: str) -> RecipeDefinition[str]:
    """A recipe as it is deployed now: it picks, and then waits for a slot that can pack."""

    @recipe(name=name)
    def ordering(run: Run, item: str) -> str:
        return run.call(pack, run.call(pick, item))

    return ordering


KEPT, SWAPPED, BROKEN, NARROWED, GONE = (
    order(name) for name in ("kept", "swapped", "broken", "narrowed", "gone")
)
IMPORTED = "the module prints\nand writes\n"


@pytest.fixture
def shop(store: Store, tmp_path: Path) -> Path:
    """A folder with the code that is to be deployed."""
    (tmp_path / "shop.py").write_text(SHOP)
    return tmp_path


@pytest.fixture
def old(store: Store) -> Driver:
    """A slot with the code that is deployed now."""
    return working_slot(store, Definitions.of([pick, pack, KEPT, SWAPPED, BROKEN, NARROWED, GONE]))


def run_all(client: Client, old: Driver, *recipes: RecipeDefinition[str]) -> None:
    for one in recipes:
        client.start(one, "tea", id=one.name)
    old.drain()


def all_running(tenure: Tenure, shop: Path, *words: str) -> Ended:
    return tenure("replay", "--all-running", "--import", "shop", *words, cwd=shop)


# -- one execution ---------------------------------------------------------------------------------------


def test_the_calls_and_the_end_of_one_that_completed(tenure: Tenure, client: Client, store: Store) -> None:
    """G13: exit code 0, and nothing is written."""
    slot = working_slot(store, DEFINITIONS, allocation=Allocation(label={"zone": "eu"}))
    client.start(squares, 3, id="map", needs=Needs(label={"zone": "eu"}))
    slot.drain()
    before = dump(store)

    shown = tenure("replay", "map", *SAMPLES)

    assert (shown.code, shown.err) == (0, "")
    assert shown.lines[0].split() == ["CAPABILITY", "TASK", "ITEMS", "OUTCOME", "NEEDS", "ERROR"]
    assert shown.rows("0:square") == [["0:square", "square", "3", "completed", "label.zone=eu"]]
    assert shown.rows("verdict") == [["verdict", "ok"]]
    assert shown.rows("because") == [["because", "replays to its recorded result"]]
    assert dump(store) == before


def test_where_one_that_runs_stands(tenure: Tenure, client: Client, slot: Driver) -> None:
    """G13: a miss is no failure there."""
    client.start(heavy, id="big", needs=Needs(label={"zone": "eu"}))
    slot.drain()
    shown = tenure("replay", "big", *SAMPLES)
    assert shown.code == 0
    assert "replays up to 0:crunch, which has no result yet (task_result_missing)" in shown.out


def test_json_has_the_calls_with_their_needs(tenure: Tenure, client: Client, slot: Driver) -> None:
    client.start(failing, "no ink", id="torn")
    slot.drain()
    data = tenure("replay", "torn", *SAMPLES, "--json").data
    assert data == {
        "instance": "default",
        "id": "torn",
        "recipe": "failing@1",
        "status": "failed",
        "verdict": "ok",
        "detail": "replays to its recorded end, failed: task 0:refuse failed: ValueError: no ink",
        "capability": None,
        "reason": None,
        "calls": [
            {
                "capability": "0:refuse",
                "task": "refuse",
                "ordinal": 0,
                "size": None,
                "outcome": "failed",
                "needs": {},
                "sources": {},
                "error": "ValueError: no ink",
            }
        ],
    }


def test_values_are_shown_where_they_are_asked_for(tenure: Tenure, client: Client, slot: Driver) -> None:
    """They may be large."""
    client.start(squares, 3, id="map")
    slot.drain()
    (call,) = tenure("replay", "map", *SAMPLES, "--json", "--values").data["calls"]
    assert (call["input"], call["result"]) == ([{"number": n, "refuse": -1} for n in range(3)], [0, 1, 4])
    shown = tenure("replay", "map", *SAMPLES, "--values")
    *_, asked, result = shown.rows("0:square")[0]
    assert asked.startswith("[{'number': 0, 'refuse': -1}, {'number': 1, ")
    assert result == "[0, 1, 4]"


def test_in_json_the_sources_have_the_shape_of_the_needs(
    tenure: Tenure, client: Client, store: Store
) -> None:
    slot = working_slot(store, DEFINITIONS, allocation=Allocation(label={"zone": "eu"}))
    client.start(publish, "Dune", id="dune", needs=Needs(label={"zone": "eu"}))
    slot.drain()
    call, *_ = tenure.here("replay", "dune", *SAMPLES, "--json").data["calls"]
    assert (call["needs"], call["sources"]) == ({"label": {"zone": "eu"}}, {"label": {"zone": "job"}})


def test_one_that_was_cancelled_replays_to_that(tenure: Tenure, client: Client, slot: Driver) -> None:
    client.start(publish, "Dune", id="dune").cancel("enough")
    shown = tenure("replay", "dune", *SAMPLES)
    assert shown.code == 0
    assert "replays up to 0:outline" in shown.out
    assert "it has ended as cancelled" in shown.out


def test_a_changed_recipe_is_exit_code_1(tenure: Tenure, client: Client, old: Driver, shop: Path) -> None:
    run_all(client, old, SWAPPED, BROKEN, KEPT)

    changed = tenure("replay", "swapped", "--import", "shop", cwd=shop)
    assert changed.code == 1
    assert changed.rows("verdict") == [["verdict", "changed"]]
    assert "now asks for 0:pack, but another task is recorded there: 0:pick" in changed.out
    as_json = json.loads(tenure("replay", "swapped", "--import", "shop", "--json", cwd=shop).out)
    assert [as_json[name] for name in ("verdict", "capability", "reason")] == ["changed", "0:pick", None]

    fails = tenure("replay", "broken", "--import", "shop", "--json", cwd=shop, TENURE_DEBUG="1")
    assert fails.code == 1
    assert '"verdict": "would_fail"' in fails.out
    assert "the recipe's own code raises LookupError: picked tea" in fails.out
    assert "raise LookupError(run.call(pick, item))" in fails.err

    kept = tenure("replay", "kept", "--import", "shop", "--json", cwd=shop)
    assert kept.err == f"{IMPORTED}the recipe prints\nit writes\nso does a program\n"
    assert [kept.data[name] for name in ("verdict", "capability", "reason")] == [
        "ok",
        "1:pack",
        "task_result_missing",
    ]


def test_what_is_not_there_or_not_loaded(tenure: Tenure, client: Client, old: Driver, shop: Path) -> None:
    run_all(client, old, GONE)
    missing = tenure("replay", "nobody", "--import", "shop", cwd=shop)
    assert (missing.code, missing.out) == (3, "")
    assert "execution nobody is not known" in missing.err
    no_code = tenure("replay", "gone", "--import", "shop", cwd=shop)
    assert (no_code.code, no_code.out) == (2, "")
    assert "recipe gone@1 is not loaded" in no_code.err
    assert tenure("replay", "gone", "--import", "nothing", cwd=shop).code == 2


@pytest.mark.parametrize("words", [[], ["one", "--all-running"]])
def test_either_one_or_all(tenure: Tenure, words: list[str]) -> None:
    ended = tenure.here("replay", *words)
    assert ended.code == 2
    assert "--all-running" in ended.err


# -- all that run ----------------------------------------------------------------------------------------


def test_a_deploy_that_breaks_nothing(
    tenure: Tenure, client: Client, store: Store, old: Driver, shop: Path
) -> None:
    """G13: those that have ended are not asked, whatever they were; nothing is written."""
    run_all(client, old, KEPT, SWAPPED)
    client.cancel("swapped", "enough")
    before = dump(store)

    shown = all_running(tenure, shop)

    assert shown.code == 0
    assert [line.split()[0] for line in shown.lines] == ["ID", "kept", "1"]
    assert shown.rows("kept")[0][:4] == ["kept", "default", "kept@1", "ok"]
    assert "replays up to 1:pack" in shown.out
    assert shown.lines[-1] == f"1 execution of namespace {store.namespace}: 1 ok"
    assert dump(store) == before


def test_a_deploy_that_breaks_some(
    tenure: Tenure, client: Client, store: Store, old: Driver, shop: Path
) -> None:
    """G13: one row each with why, and exit code 1; what cannot be read stops no other (G17)."""
    run_all(client, old, KEPT, SWAPPED, BROKEN, NARROWED, GONE)
    client.start(KEPT, "tea", id="odd")
    records = store.keys("records", "default", "odd")
    store.client.hset(records, "recipe", b"\xc1")
    model = new_execution(ExecutionBlueprint("book", ("draw",)), "order-9", "default", execution_id="book-7")
    store.execution_store("default").add(model)
    before = dump(store)

    shown = all_running(tenure, shop)

    assert shown.code == 1
    assert {line.split()[0]: shown.rows(line.split()[0])[0][2:4] for line in shown.lines[1:-1]} == {
        "kept": ["kept@1", "ok"],
        "swapped": ["swapped@1", "changed"],
        "broken": ["broken@1", "would fail"],
        "narrowed": ["narrowed@1", "would fail"],
        "gone": ["gone@1", "no code"],
        "odd": [
            "unreadable",
            "a record cannot be read (FormatError); the bytes are kept; `tenure cancel` ends it",
        ],
        "book-7": ["no recipe", "no recipe of it runs"],
    }
    because = {name: shown.rows(name)[0][4] for name in ("swapped", "broken", "narrowed", "gone")}
    assert "now asks for 0:pack" in because["swapped"]
    assert because["broken"] == "the recipe's own code raises LookupError: picked tea"
    assert because["narrowed"].startswith(
        "its recorded input does not fit the recipe's parameters: narrowed: it needs 'box'"
    )
    assert because["gone"].startswith("imported of gone: 2, and not 1; keep the code of version 1")
    assert shown.lines[-1] == (
        f"7 executions of namespace {store.namespace}: "
        "1 ok, 1 changed, 2 would fail, 1 no code, 1 unreadable, 1 no recipe"
    )
    assert dump(store) == before


def test_all_as_json(tenure: Tenure, client: Client, old: Driver, shop: Path) -> None:
    run_all(client, old, KEPT)
    data: dict[str, Any] = all_running(tenure, shop, "--json").data
    assert [(row["id"], row["verdict"], row["capability"]) for row in data["executions"]] == [
        ("kept", "ok", "1:pack")
    ]
    assert data["counts"] == {
        verdict: int(verdict == "ok")
        for verdict in ("ok", "changed", "would_fail", "no_code", "unreadable", "no_recipe")
    }


def test_every_instance_is_asked_unless_one_is_named(
    tenure: Tenure, client: Client, store: Store, old: Driver, shop: Path
) -> None:
    """A deploy is of all that the namespace's workers run."""
    run_all(client, old, KEPT)
    run_all(Client(store=store, instance="alice"), old, SWAPPED)

    def rows(*options: str) -> dict[str, str]:
        words = ("replay", "--all-running", "--import", "shop", "--json")
        ended = tenure(*options, *words, cwd=shop)
        data = json.loads(ended.out)
        assert ended.code == int(data["counts"]["changed"] > 0)
        return {row["instance"]: row["verdict"] for row in data["executions"]}

    assert rows() == {"default": "ok", "alice": "changed"}
    assert rows("--instance", "default") == {"default": "ok"}
    assert rows("--instance", "alice") == {"alice": "changed"}


def test_the_recipes_of_one_deploy(
    tenure: Tenure, client: Client, store: Store, old: Driver, shop: Path
) -> None:
    """Of services that are deployed apart; what cannot be read could be of any."""
    other = order("other.service")
    client.start(other, "tea", id="foreign")
    run_all(client, old, KEPT, SWAPPED)
    (foreign,) = all_running(tenure, shop).rows("foreign")
    assert foreign[3] == "no code"
    assert foreign[4].startswith("no version of other.service is imported; name its module with --import")

    chosen = all_running(tenure, shop, "--recipe", "kept", "--recipe", "gone")
    assert (chosen.code, [line.split()[0] for line in chosen.lines[1:-1]]) == (0, ["kept"])

    store.client.hset(store.keys("records", "default", "swapped"), "recipe", b"\xc1")
    assert all_running(tenure, shop, "--recipe", "kept").rows("swapped")[0][2] == "unreadable"

    misspelt = all_running(tenure, shop, "--recipe", "keppt")
    assert (misspelt.code, misspelt.out) == (2, "")
    assert "no version of recipe keppt is imported" in misspelt.err
    assert tenure.here("replay", "kept", "--recipe", "kept").code == 2


def test_a_record_that_lacks_a_field_is_one_row(
    tenure: Tenure, client: Client, records: Site, old: Driver, shop: Path
) -> None:
    """G17: the others are told all the same."""
    run_all(client, old, KEPT, SWAPPED)
    records.edit_record(client.get("kept"), "0:pick", ordinal=None)
    shown = all_running(tenure, shop)
    assert shown.code == 1
    verdict, because = shown.rows("kept")[0][3:5]
    assert verdict == "unreadable"
    assert because.startswith("the record of 0:pick cannot be read (it has no 'ordinal'); the bytes are kept")
    assert shown.rows("swapped")[0][3] == "changed"


@pytest.mark.parametrize("closed", [">&-", ">&- 2>&-", "2>&-"])
def test_it_works_where_nothing_can_be_printed(
    tenure: Tenure, client: Client, old: Driver, shop: Path, closed: str
) -> None:
    run_all(client, old, KEPT, SWAPPED)
    for name, code in (("kept", 0), ("swapped", 1)):
        for words in ((name,), (name, "--json")):
            command = shlex.join(tenure.command("replay", *words, "--import", "shop"))
            done = subprocess.run(
                ["/bin/sh", "-c", f"{command} {closed}"], cwd=shop, env=tenure.environment(), check=False
            )
            assert done.returncode == code


def test_nothing_runs_and_nothing_is_imported(tenure: Tenure, store: Store, shop: Path) -> None:
    assert all_running(tenure, shop).out == f"namespace {store.namespace} has no executions that run\n"
    named = tenure("--instance", "bob", "replay", "--all-running", "--import", "shop", cwd=shop)
    assert named.out == "instance bob has no executions that run\n"
    ended = tenure("replay", "--all-running")
    assert (ended.code, ended.out) == (2, "")
    assert "--import" in ended.err
