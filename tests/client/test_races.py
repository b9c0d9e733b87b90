"""Real client processes start the same ids at the same time."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from tenure import Client
from tenure.wiring import Store

ROOT = Path(__file__).parents[2]
COUNT = 40

PROGRAM = """
import json, sys
from tenure import Client, ExecutionExists, Input
from tests.jobs import work

url, namespace, how, length, count = sys.argv[1:]
with Client(url, namespace=namespace) as client:
    client.list()
    print("ready", flush=True)
    sys.stdin.readline()
    got = []
    for n in range(int(count)):
        try:
            if how == "many":
                inputs = [Input(int(length), id=f"e{n}")] * 2
                got += [handle.id for handle in client.start_many(work.chain, inputs)]
            else:
                got.append(client.start(work.chain, int(length), **{how: f"e{n}"}).id)
        except ExecutionExists:
            got.append(None)
print(json.dumps(got), flush=True)
"""


def run_at_once(url: str, namespace: str, how: str, lengths: Sequence[int]) -> list[list[Any]]:
    """What each process has got; one per length."""
    words = [[url, namespace, how, str(length), str(COUNT)] for length in lengths]
    processes = [
        subprocess.Popen(
            [sys.executable, "-c", PROGRAM, *each],
            cwd=ROOT,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        for each in words
    ]
    try:
        for process in processes:
            assert process.stdout is not None
            assert process.stdout.readline() == "ready\n"
        for process in processes:
            assert process.stdin is not None
            process.stdin.write("go\n")
            process.stdin.flush()
        return [json.loads(process.communicate(timeout=60)[0]) for process in processes]
    finally:
        for process in processes:
            process.kill()
            process.communicate()


@pytest.mark.parametrize("how", ["id", "key", "many"])
def test_all_who_start_the_same_get_the_one_execution(
    url: str, namespace: str, client: Client, store: Store, how: str
) -> None:
    got = run_at_once(url, namespace, how, [3, 3, 3])

    assert got[0] == got[1] == got[2]
    assert None not in got[0]
    listed = client.list(limit=1000)
    assert {stored.id for stored in listed} == set(got[0])
    assert len(listed) == COUNT
    for execution in set(got[0]):
        kinds = [event.kind for event in store.events.read("default", execution)]
        assert kinds.count("created") == 1


def test_of_those_who_start_another_each_id_goes_to_one(url: str, namespace: str, client: Client) -> None:
    got = run_at_once(url, namespace, "id", [3, 4])

    for mine, other in zip(*got, strict=True):
        assert (mine is None) != (other is None)
    assert len(client.list(limit=1000)) == COUNT
