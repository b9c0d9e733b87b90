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

from tenure import Allocation, Client
from tenure.engine.definitions import Definitions, RecipeDefinition, TaskDefinition
from tenure.engine.driver import Driver
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
