"""Every call on behalf of one instance, with an execution of another's."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from tenure import Client, ExecutionNotFound, Handle, Run, recipe
from tenure.engine.definitions import Definitions
from tenure.wiring import Store
from tests.client.stored import dump
from tests.harness import working_slot

#: Arguments of methods that check them before they look for the execution; others get "x".
ARGUMENTS: dict[str, dict[str, Any]] = {}


@recipe
def double(run: Run, number: int) -> int:
    return 2 * number


def about_one(kind: type) -> Iterator[str]:
    """Methods of `Handle`, and of `Client` those that take an id; what takes it to be new is none of them."""
    for name, method in vars(kind).items():
        if name.startswith("_") or not inspect.isfunction(method):
            continue
        if kind is Handle or next(iter(list(inspect.signature(method).parameters)[1:]), "") == "id":
            yield name


def call(thing: Client | Handle, name: str, *first: str) -> None:
    method: Callable[..., Any] = getattr(thing, name)
    required = [p for p in inspect.signature(method).parameters.values() if p.default is p.empty]
    filled = {p.name: "x" for p in required[len(first) :] if p.kind is not p.VAR_KEYWORD}
    answer = method(*first, **filled | ARGUMENTS.get(name, {}))
    if isinstance(answer, Iterator):
        list(answer)


@pytest.fixture(params=["pending", "completed"])
def alices(request: pytest.FixtureRequest, store: Store) -> str:
    """An execution of another instance, in either state."""
    slot = working_slot(store, Definitions.of([double]))
    Client(store=store, instance="alice").start(double, 1, id="one")
    if request.param == "completed":
        slot.drain()
    assert Client(store=store, instance="alice").get("one").status() == request.param
    return "one"


@pytest.mark.parametrize("name", [*about_one(Client)])
def test_no_call_of_a_client_finds_it_or_touches_it(alices: str, store: Store, name: str) -> None:
    bob = Client(store=store, instance="bob")
    before = dump(store)
    if name == "get":  # it asks nothing; see the handle
        call(bob, name, alices)
    else:
        with pytest.raises(ExecutionNotFound, match=r"one .*bob"):
            call(bob, name, alices)
    assert dump(store) == before


@pytest.mark.parametrize("name", [*about_one(Handle)])
def test_no_call_of_a_handle_finds_it_or_touches_it(alices: str, store: Store, name: str) -> None:
    handle = Client(store=store, instance="bob").get(alices)
    before = dump(store)
    with pytest.raises(ExecutionNotFound, match=r"one .*bob"):
        call(handle, name)
    if name == "events":
        with pytest.raises(ExecutionNotFound):
            list(handle.events(follow=True))
    assert dump(store) == before


def test_it_is_not_listed(alices: str, store: Store) -> None:
    assert Client(store=store, instance="bob").list() == []


def test_the_same_id_of_another_instance_is_another_execution(alices: str, store: Store) -> None:
    def of_alice() -> dict[bytes, Any]:
        return {key: value for key, value in dump(store).items() if b":alice" in key}

    before = of_alice()
    assert len(before) >= 3
    bob = Client(store=store, instance="bob")
    bobs = bob.start(double, 4, id=alices)
    bob.start_many(double, [5, 6])
    assert bobs.cancel() == "cancelled"

    assert of_alice() == before


def test_calls_that_are_about_one_are_found() -> None:
    assert {"get", "cancel", "explain", "replay"} <= set(about_one(Client))
    assert {"status", "wait", "result", "events", "snapshot", "cancel", "explain"} <= set(about_one(Handle))
