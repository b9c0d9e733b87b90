"""What the processes of a race do; they begin together, when each of them is ready."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from contextlib import closing
from multiprocessing import get_context
from typing import Any, TypeVar

from tenure.errors import LeaseLost
from tenure.store.connection import connect
from tenure.store.grants import Grant
from tenure.wiring import open_store
from tests.store.stage import Stage

R = TypeVar("R")


def race(runners: int, stage: Stage, run: Callable[..., R], *args: Any) -> list[R]:
    """Call `run(stage, number, ...)` in so many processes of their own at the same moment."""
    ready, go = f"{stage.store.namespace}:race:ready", f"{stage.store.namespace}:race:go"
    where = (stage.store.url, stage.store.namespace, ready, go)
    with (
        ProcessPoolExecutor(runners, mp_context=get_context("spawn")) as pool,
        closing(connect(stage.store.url, socket_timeout=90)) as patient,
    ):
        running = [pool.submit(_run, where, run, n, *args) for n in range(runners)]
        for _ in range(runners):
            assert patient.blpop([ready], timeout=60)
        stage.client.rpush(go, *range(runners))
        return [one.result(60) for one in running]


def _run(where: tuple[str, str, str, str], run: Callable[..., R], number: int, *args: Any) -> R:
    url, namespace, ready, go = where
    with (
        open_store(url, namespace=namespace, test_clock=True) as store,
        closing(connect(url, socket_timeout=90)) as client,
    ):
        stage = Stage(store, client)
        store.scripts.call("scan", {"index": "live", "limit": 1, "after": 0})
        client.rpush(ready, number)
        client.blpop([go], timeout=60)
        return run(stage, number, *args)


def claim_all(stage: Stage, number: int) -> list[tuple[str, int]]:
    """Claim until nothing is left, as one slot: the routes and tokens."""
    slot = stage.slot(f"life{number}")
    grants: list[tuple[str, int]] = []
    while (grant := slot.claim()) is not None:
        grants.append((grant.route, grant.token))
    return grants


def finish_all(stage: Stage, number: int, recipes: list[Grant]) -> list[str]:
    """End every execution under the same lease as the other process, each in its own way; those it ended."""
    slot = stage.slot(f"life{number}")
    action = ("complete", "fail")[number]
    fields: dict[str, Any] = {"result": b"\x01\x01"} if action == "complete" else {"error": "it broke"}
    ended: list[str] = []
    for recipe in recipes:
        try:
            stage.advance(slot, recipe, action, **fields)
        except LeaseLost:
            continue
        ended.append(recipe.execution)
    return ended
