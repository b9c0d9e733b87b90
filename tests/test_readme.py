"""What the README shows is run here, and what it says of states and commands is compared with the code."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tenure import Allocation, Client, Needs
from tenure.client.environment import EnvironmentStatus
from tenure.engine.definitions import Definitions, RecipeDefinition, TaskDefinition
from tenure.engine.driver import Driver
from tenure.errors import InvalidInput, InvalidQuantity
from tenure.model.allocation import Image
from tenure.model.fit import compare
from tenure.model.status import CAPABILITY_MOVES, EXECUTION_MOVES, INVOCATION_MOVES, mermaid
from tenure.store.outbox import OutboxEvent
from tenure.wiring import open_store
from tests.harness import working_slot

ROOT = Path(__file__).parent.parent
README = (ROOT / "README.md").read_text()


def blocks(language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```$", README, flags=re.MULTILINE | re.DOTALL)


@pytest.mark.parametrize("table", [EXECUTION_MOVES, CAPABILITY_MOVES, INVOCATION_MOVES])
def test_a_state_diagram_is_the_table_of_moves(table: object) -> None:
    assert mermaid(table) in blocks("mermaid")  # type: ignore[arg-type]  # one of the three tables


def test_every_word_for_what_is_known_of_a_demand_is_explained() -> None:
    words = re.findall(r"^\| `(\w+)` \|", README, flags=re.MULTILINE)
    assert words == [status.value for status in EnvironmentStatus]


def test_the_two_commands_on_top_are_targets_of_the_makefile() -> None:
    makefile = (ROOT / "Makefile").read_text()
    targets = re.findall(r"^make (\w+) ", blocks("sh")[0], flags=re.MULTILINE)
    assert targets == ["demo", "test"]
    assert all(f"\n{target}:" in makefile for target in targets)


def test_the_example_fits_in_forty_lines() -> None:
    assert len(blocks("python")[0].splitlines()) < 40


def test_the_example_of_needs_hands_off_and_suspends_as_the_readme_says(url: str, namespace: str) -> None:
    """Every task once, each where it fits; and the event is the one that is shown."""
    shown = json.loads(blocks("json")[0])
    module: dict[str, Any] = {}
    exec(blocks("python")[1], module)  # noqa: S102  # our own README
    definitions = Definitions.of(
        one for one in module.values() if isinstance(one, (TaskDefinition, RecipeDefinition))
    )
    with open_store(url, namespace=namespace) as store:

        def slot(life: str, **facts: Any) -> Driver:
            allocation = Allocation(**facts)
            return working_slot(store, definitions, allocation=allocation, session=life, life=life)

        small = slot("small", **shown["allocation"])
        gpu = slot("gpu", cpu=1, gpu=1, memory="64Gi", platform="linux/amd64")
        eu = slot("eu", cpu=1, memory="64Gi", label={"zone": "eu"})
        client = Client(store=store)
        modest = client.start(module["learn"], "x" * 16, id=shown["execution"])
        big = client.start(module["learn"], "x" * 24, id="big")
        for worker in (small, gpu, eu) * 3:
            worker.drain()

        for handle, path in ((modest, "x" * 16), (big, "x" * 24)):
            assert handle.result(1) == f"published a model of {path}"
            ran = [event.capability for event in handle.events() if event.kind == "started"]
            assert ran == ["0:measure", "1:train", "2:publish"]
        told = [event.body for event in store.duties.due_events(limit=9) if isinstance(event, OutboxEvent)]
        body = next(body for body in told if body["execution"] == "book-7")
        assert {**body, "id": shown["id"], "at": shown["at"], "namespace": shown["namespace"]} == shown
        suspension = next(body for body in told if body["execution"] == "big")
        assert suspension["demand"] == {"cpu": "1", "memory": "64Gi"}
        assert suspension["sources"] == {"cpu": "recipe", "memory": "job"}


GRAMMAR = README.partition("### How needs and allocations are written\n")[2].partition("\n#")[0]


def spellings() -> list[list[str]]:
    """The table's rows: property, Python, one line, variable."""
    rows = re.findall(r"^\| ([^|]+) \| `(.+)` \| `(.+)` \| `(.+)` \|$", GRAMMAR, flags=re.MULTILINE)
    return [[cell.replace("HEX", "0" * 64) for cell in row] for row in rows]


def told_in_python(keywords: str, kind: type[Needs | Allocation] = Allocation) -> Any:
    return eval(f"kind({keywords})", {"kind": kind})  # noqa: S307  # our own README


def test_the_three_spellings_of_a_property_mean_the_same() -> None:
    for property_, python, line, variable in spellings():
        told = told_in_python(python)
        assert not told.is_empty
        assert Allocation.parse(line) == told, line
        assert Allocation.from_environment(dict([variable.split("=", 1)])) == told, variable
        if "(allocations)" not in property_:
            assert Needs.parse(line) == told_in_python(python, Needs), line
            assert compare(Needs.parse(line), told) == ()


def test_the_table_of_spellings_has_every_property_and_every_variable() -> None:
    rows = spellings()
    assert len(rows) == sum(row.count("`") == 6 for row in GRAMMAR.splitlines() if row.startswith("| "))
    properties = {name for _, python, _, _ in rows for name in told_in_python(python).to_data()}
    assert properties == set(Allocation.properties)
    names = {name.partition("=")[0] for _, _, line, _ in rows for name in line.split(",")}
    assert {re.sub(r"^(resource|label)\..*", r"\1.NAME", name) for name in names} == set(Allocation.names)
    with pytest.raises(InvalidInput, match="not known") as refused:
        Allocation.from_environment({"TENURE_ALLOCATION_": "1"})
    known = str(refused.value).rpartition("there may be ")[2].split(", ")
    variables = [variable.partition("=")[0] for *_, variable in rows]
    assert sorted(variables) == sorted(f"TENURE_ALLOCATION_{name}" for name in known)


def test_what_the_readme_says_of_amounts_platforms_and_images_holds() -> None:
    aliases = re.search(
        r"Names that\s+machines use become those of images: (.*?)\.\n", GRAMMAR, flags=re.DOTALL
    )
    assert aliases is not None
    said = re.findall(r"((?:`[^`]+`(?:\s+and\s+)?)+)\s+(?:are|is)\s+`([^`]+)`", aliases[1])
    assert sum(len(re.findall("`[^`]+`", names)) for names, _ in said) == 7
    for names, meant in said:
        for name in re.findall("`([^`]+)`", names):
            pair = [f"{one}/x" if name == "macos" else f"linux/{one}" for one in (name, meant)]
            assert Needs(platform=pair[0]) == Needs(platform=pair[1].upper())
            assert Needs(platform=pair[1]).platform == pair[1]

    for refused in ("cpu=0.1m", "memory=1.5"):
        assert f"`{refused}`" in GRAMMAR
        with pytest.raises(InvalidQuantity, match="rounded"):
            Allocation.parse(refused)
    assert Allocation.parse("gpu=0") != Allocation()
    with pytest.raises(InvalidQuantity, match="zero"):
        Needs.parse("gpu=0")

    digest = "sha256:" + "0" * 64
    pinned = Needs(image=f"name@{digest}")
    assert compare(pinned, Allocation(image=Image(reference="other:1", manifest_digest=digest))) == ()
    assert compare(pinned, Allocation(image=Image(reference=f"name@{digest}", image_id=digest)))


def test_the_option_wins_over_the_variables_as_the_readme_says() -> None:
    variables = Allocation.parse(f"cpu=4,label.zone=eu,image=a:1,image.manifest_digest=sha256:{'0' * 64}")
    option = Allocation.parse("cpu=2,memory=8Gi,label.disk=ssd,image=b:1")
    assert variables.overlaid_by(option) == Allocation.parse(
        "cpu=2,memory=8Gi,label.zone=eu,label.disk=ssd,image=b:1"
    )


@pytest.fixture
def shop(tmp_path: Path) -> Path:
    """A folder with the README's app.py and the processes of its second block."""
    (tmp_path / "app.py").write_text(blocks("python")[0])
    return tmp_path


def what_it_prints() -> str:
    said = re.search(r"^`([^`]+ words in [^`]+)`", README, flags=re.MULTILINE)
    assert said is not None
    return said.group(1)


def environment() -> dict[str, str]:
    clean = {name: value for name, value in os.environ.items() if not name.startswith("TENURE_")}
    return {**clean, "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"}


def test_the_example_runs_as_the_readme_says(shop: Path) -> None:
    """Three commands in one folder, no URL: they share the embedded server in `.tenure/`."""
    commands = next(block for block in blocks("sh") if "tenure scheduler" in block).splitlines()
    *services, app = commands
    with (shop / "log").open("wb") as log:
        running = [
            subprocess.Popen(
                command.split(),
                cwd=shop,
                env=environment(),
                stdout=log,
                stderr=log,
                start_new_session=True,
            )
            for command in services
        ]
        try:
            done = subprocess.run(
                app.split(),
                cwd=shop,
                env=environment(),
                capture_output=True,
                text=True,
                timeout=60,
                check=False,
            )
        finally:
            for process in running:
                process.send_signal(signal.SIGTERM)
            codes = [process.wait(30) for process in running]
    output = (shop / "log").read_text()
    assert done.returncode == 0, done.stderr + output
    assert done.stdout.strip() == what_it_prints()
    assert codes == [0, 0], output


def test_the_example_in_process_does_the_same_alone(shop: Path) -> None:
    """No scheduler and no worker process; its embedded server ends with it."""
    (embedded,) = (block for block in blocks("python") if "InProcessWorker" in block)
    (shop / "embedded.py").write_text(embedded)
    done = subprocess.run(
        [sys.executable, "embedded.py"],
        cwd=shop,
        env=environment(),
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.strip() == what_it_prints()
    assert done.stderr == ""
