"""Scopes: bound once, cancelled with their instance, released when their execution has ended (seed 002)."""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta

import pytest

from tenure.model.blueprint import ExecutionBlueprint
from tenure.model.creation import new_execution
from tenure.scopes.registry import ScopeRegistry
from tenure.scopes.scope import Scope


@pytest.fixture
def instance() -> Scope:
    return Scope()


@pytest.fixture
def registry(instance: Scope) -> ScopeRegistry:
    return ScopeRegistry(instance)


def test_binding_again_gives_the_scope_in_force(registry: ScopeRegistry) -> None:
    scope = registry.bind("a")
    assert registry.bind("a") is scope
    assert registry.context("a") is scope
    assert registry.bind("b") is not scope
    assert len(registry) == 2


def test_a_second_bind_does_not_escape_a_cancellation(registry: ScopeRegistry) -> None:
    scope = registry.bind("a")
    registry.cancel("a", "enough")

    assert registry.bind("a") is scope
    assert registry.bind("a").is_cancelled
    assert registry.bind_detached("a") is scope


def test_cancelling_stops_that_execution_alone(registry: ScopeRegistry) -> None:
    a, b = registry.bind("a"), registry.bind("b")

    assert registry.cancel("a", "enough") is True

    assert (a.is_cancelled, a.reason) == (True, "enough")
    assert (b.is_cancelled, b.reason) == (False, None)
    assert registry.cancel("a", "again") is True
    assert a.reason == "enough"


def test_cancelling_what_is_not_bound_is_no_error(registry: ScopeRegistry) -> None:
    assert registry.cancel("nobody") is False
    registry.bind("a")
    registry.release("a")
    assert registry.cancel("a") is False


def test_cancelling_a_scope_ends_no_execution(registry: ScopeRegistry) -> None:
    execution = new_execution(ExecutionBlueprint("book", ("draw",)))
    execution.start({}, 1)
    registry.bind(execution.id)

    registry.cancel(execution.id)

    assert execution.status == "running"


def test_scopes_end_with_their_instance(instance: Scope, registry: ScopeRegistry) -> None:
    a = registry.bind("a")

    instance.cancel("the process stops")

    assert (a.is_cancelled, a.reason) == (True, "the process stops")
    late = registry.bind("late")
    assert (late.is_cancelled, late.reason) == (True, "the process stops")


def test_detached_scopes_outlive_their_instance(instance: Scope, registry: ScopeRegistry) -> None:
    detached = registry.bind_detached("d")
    instance.cancel()

    assert not detached.is_cancelled
    assert registry.bind("d") is detached
    assert registry.bind_detached("d") is detached
    assert not registry.bind_detached("late").is_cancelled


def test_a_scope_in_force_becomes_one_of_detached_work(instance: Scope, registry: ScopeRegistry) -> None:
    scope = registry.bind("d")
    assert registry.bind_detached("d") is scope

    instance.cancel()
    registry.release_all()

    assert not scope.is_cancelled


def test_detached_work_can_be_cancelled(registry: ScopeRegistry) -> None:
    detached = registry.bind_detached("d")
    assert registry.cancel("d", "enough")
    assert detached.reason == "enough"


@pytest.mark.parametrize("bind", [ScopeRegistry.bind, ScopeRegistry.bind_detached])
def test_releasing_cancels_and_lets_go(
    registry: ScopeRegistry, bind: Callable[[ScopeRegistry, str], Scope]
) -> None:
    scope = bind(registry, "a")

    registry.release("a")
    registry.release("a")
    registry.release("nobody")

    assert (scope.is_cancelled, scope.reason) == (True, "execution a is over")
    assert registry.context("a") is None
    assert len(registry) == 0
    assert registry.bind("a") is not scope


def test_a_released_scope_is_not_kept_by_its_instance(instance: Scope, registry: ScopeRegistry) -> None:
    for n in range(100):
        registry.bind(f"e{n}")
        registry.release(f"e{n}")
    assert instance.cancelled._callbacks == {}


def test_releasing_all_spares_detached_work(instance: Scope, registry: ScopeRegistry) -> None:
    ordinary, detached = registry.bind("a"), registry.bind_detached("d")

    registry.release_all()

    assert (ordinary.reason, detached.reason) == ("the instance stops", None)
    assert registry.context("a") is None
    assert registry.context("d") is detached
    assert not instance.is_cancelled

    registry.release("d")
    assert detached.is_cancelled
    assert len(registry) == 0


def test_detached_work_is_bounded_by_the_drain_budget(registry: ScopeRegistry) -> None:
    detached = registry.bind_detached("d")

    registry.release_all(timedelta(milliseconds=20))

    assert detached.wait(30)
    assert detached.reason == "the drain budget of 0:00:00.020000 is spent"


def test_work_that_ends_within_its_budget_is_not_cut_short(registry: ScopeRegistry) -> None:
    detached = registry.bind_detached("d")
    registry.release_all(timedelta(hours=1))
    left = detached.remaining()
    assert left is not None
    assert timedelta(minutes=59) < left <= timedelta(hours=1)

    timer = detached._timer
    assert timer is not None

    registry.release("d")

    assert detached.reason == "execution d is over"
    timer.join(30)
    assert not timer.is_alive()


def test_of_several_limits_the_earliest_counts() -> None:
    scope = Scope()
    assert scope.remaining() is None
    scope.limit(timedelta(hours=1), "late")
    scope.limit(timedelta(milliseconds=1), "early")
    scope.limit(timedelta(hours=2), "later")

    assert scope.wait(30)
    assert scope.reason == "early"
    assert scope.remaining() == timedelta(0)


def test_a_scope_ends_once_with_all_that_derives_from_it() -> None:
    scope = Scope()
    child, grandchild = scope.derive(), scope.derive().derive()
    assert child.cancel("on its own")
    assert not scope.is_cancelled

    assert scope.cancel("first") is True
    assert scope.cancel("second") is False

    assert (scope.reason, child.reason, grandchild.reason) == ("first", "on its own", "first")
    assert scope.wait(0)


def test_a_waiting_thread_learns_of_the_end(registry: ScopeRegistry) -> None:
    scope = registry.bind("a")
    with ThreadPoolExecutor(1) as threads:
        waiting = threads.submit(scope.wait, 30)
        registry.cancel("a")
        assert waiting.result(30) is True
    assert Scope().wait(0.001) is False


def test_threads_that_bind_together_get_one_scope_and_leave_nothing(
    instance: Scope, registry: ScopeRegistry
) -> None:
    for n in range(50):
        begin = threading.Barrier(8)

        def bind(number: int, begin: threading.Barrier = begin, name: str = f"e{n}") -> Scope:
            begin.wait(30)
            return registry.bind(name) if number % 2 else registry.bind_detached(name)

        with ThreadPoolExecutor(8) as threads:
            scopes = list(threads.map(bind, range(8)))
        assert len({id(scope) for scope in scopes}) == 1
        registry.release(f"e{n}")
        assert scopes[0].is_cancelled
    assert len(registry) == 0
    assert instance.cancelled._callbacks == {}
