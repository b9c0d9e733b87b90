"""Every status and every operation: what comes of it, what it answers, what it changes (seed 002)."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from concurrent.futures import CancelledError, ThreadPoolExecutor
from datetime import UTC, datetime, timedelta
from functools import partial
from types import SimpleNamespace
from typing import Any

import pytest

from tenure.errors import (
    ExecutionCancelled,
    ExecutionError,
    ExecutionFailed,
    IllegalTransition,
    InvalidInput,
    NotPlainData,
)
from tenure.model.blueprint import RESERVED, ExecutionBlueprint
from tenure.model.creation import new_detached_task, new_execution
from tenure.model.execution import Execution
from tenure.model.latch import Latch
from tenure.model.snapshot import CapabilityExecutionState
from tenure.model.status import CapabilityStatus, ExecutionStatus
from tenure.store.keys import RECIPE

BOOK = ExecutionBlueprint("book", ("draw", "print"))

REFUSED = IllegalTransition
#: What an operation does: an answer, or the error it raises, and the status after it.
Outcome = tuple[object, str]


def running() -> Execution:
    execution = new_execution(BOOK, "c", "tenant", execution_id="book-7")
    execution.start({"pages": 3}, 2)
    return execution


ENDS: dict[str, Callable[[Execution], bool]] = {
    "completed": lambda e: e.mark_completed(),
    "failed": lambda e: e.mark_failed("it broke"),
    "cancelled": lambda e: e.mark_cancelled("enough"),
}


def execution_in(status: str) -> Execution:
    if status == "pending":
        return new_execution(BOOK, "c", "tenant", execution_id="book-7")
    execution = running()
    if status != "running":
        assert ENDS[status](execution)
    return execution


def with_draw_in(status: str) -> Execution:
    """A running execution whose capability `draw` has this status."""
    execution = running()
    if status in ("ready", "running", "completed", "failed", "detached"):
        execution.mark_capability_ready("draw", {"page": 1})
    if status in ("running", "completed", "failed"):
        execution.mark_capability_running("draw")
    lasts: dict[str, Callable[[], object]] = {
        "completed": lambda: execution.mark_capability_completed("draw", {"ink": 5}),
        "failed": lambda: execution.mark_capability_failed("draw", "it broke"),
        "detached": lambda: execution.mark_capability_detached("draw"),
        "cancelled": lambda: execution.mark_capability_cancelled("draw", "enough"),
        "skipped": lambda: execution.mark_capability_skipped("draw"),
    }
    lasts.get(status, lambda: None)()
    assert execution.capability_state("draw").status == status
    return execution


# --- the execution ---

EXECUTION_OPERATIONS: dict[str, Callable[[Execution], object]] = {
    "start": lambda e: e.start({}, 1),
    "complete_current_and_schedule": lambda e: e.complete_current_and_schedule(3),
    "mark_completed": lambda e: e.mark_completed(),
    "mark_failed": lambda e: e.mark_failed("late"),
    "mark_cancelled": lambda e: e.mark_cancelled("late"),
    "ready": lambda e: e.mark_capability_ready("draw", {}),
    "running": lambda e: e.mark_capability_running("draw"),
    "completed": lambda e: e.mark_capability_completed("draw", {}),
    "detached": lambda e: e.mark_capability_detached("draw"),
    "skipped": lambda e: e.mark_capability_skipped("draw"),
    "failed": lambda e: e.mark_capability_failed("draw", "it broke"),
    "cancelled": lambda e: e.mark_capability_cancelled("draw", "enough"),
}

#: Of an execution whose capabilities are all pending.
OF_EXECUTION: dict[str, dict[str, Outcome]] = {
    "start": {"pending": (None, "running")},
    "complete_current_and_schedule": {"running": (4, "running")},
    "mark_completed": {
        "pending": (False, "pending"),
        "running": (True, "completed"),
        **{ended: (False, ended) for ended in ("completed", "failed", "cancelled")},
    },
    "mark_failed": {
        "pending": (True, "failed"),
        "running": (True, "failed"),
        **{ended: (False, ended) for ended in ("completed", "failed", "cancelled")},
    },
    "mark_cancelled": {
        "pending": (True, "cancelled"),
        "running": (True, "cancelled"),
        **{ended: (False, ended) for ended in ("completed", "failed", "cancelled")},
    },
    "ready": {"running": (None, "running")},
    "running": {},
    "completed": {},
    "detached": {},
    "skipped": {"running": (None, "running")},
    "failed": {
        "pending": (True, "pending"),
        "running": (True, "running"),
        **{ended: (False, ended) for ended in ("completed", "failed", "cancelled")},
    },
    "cancelled": {
        "pending": (True, "pending"),
        "running": (True, "running"),
        **{ended: (False, ended) for ended in ("completed", "failed", "cancelled")},
    },
}


@pytest.mark.parametrize("status", ExecutionStatus)
@pytest.mark.parametrize("operation", EXECUTION_OPERATIONS)
def test_every_operation_on_an_execution_of_every_status(operation: str, status: str) -> None:
    execution = execution_in(status)
    before = execution.snapshot()
    answer, after = OF_EXECUTION[operation].get(status, (REFUSED, status))

    if answer is REFUSED:
        with pytest.raises(IllegalTransition, match="book-7"):
            EXECUTION_OPERATIONS[operation](execution)
    else:
        assert EXECUTION_OPERATIONS[operation](execution) == answer

    assert execution.status == after
    assert execution.is_terminal == (after in ("completed", "failed", "cancelled"))
    assert execution.done.is_set() == execution.is_terminal
    if answer is REFUSED or answer is False:
        assert execution.snapshot() == before


# --- one capability ---

CAPABILITY_OPERATIONS: dict[str, Callable[[Execution], object]] = {
    name: EXECUTION_OPERATIONS[name]
    for name in ("ready", "running", "completed", "detached", "skipped", "failed", "cancelled")
}
#: Where each operation leads from; everywhere else it is refused or, of a late report, False.
MOVES = {
    "ready": "pending",
    "running": "ready",
    "completed": "running",
    "detached": "ready",
    "skipped": "pending",
    "failed": "pending ready running",
    "cancelled": "pending ready running",
}
REPORTS = ("failed", "cancelled")


@pytest.mark.parametrize("status", CapabilityStatus)
@pytest.mark.parametrize("operation", CAPABILITY_OPERATIONS)
def test_every_operation_on_a_capability_of_every_status(operation: str, status: str) -> None:
    execution = with_draw_in(status)
    before = execution.snapshot()
    act = CAPABILITY_OPERATIONS[operation]

    if status in MOVES[operation].split():
        assert act(execution) is (True if operation in REPORTS else None)
        assert execution.capability_state("draw").status == operation
        return
    if operation in REPORTS:
        assert act(execution) is False
    else:
        with pytest.raises(
            IllegalTransition, match=f"draw of execution book-7 is {status} and cannot become"
        ):
            act(execution)
    assert execution.snapshot() == before


@pytest.mark.parametrize("operation", CAPABILITY_OPERATIONS)
def test_every_operation_on_a_capability_that_there_is_not(operation: str) -> None:
    execution = new_execution(ExecutionBlueprint("other", ("print",)))
    execution.start({}, 1)
    before = execution.snapshot()

    if operation in REPORTS:
        assert CAPABILITY_OPERATIONS[operation](execution) is False
    else:
        with pytest.raises(InvalidInput, match="no capability 'draw'; it has print"):
            CAPABILITY_OPERATIONS[operation](execution)
    assert execution.snapshot() == before


@pytest.mark.parametrize("status", CapabilityStatus)
@pytest.mark.parametrize("end", ENDS)
def test_what_becomes_of_a_capability_when_all_ends(end: str, status: str) -> None:
    """G6, G14: nothing is left in flight, an outcome stays, and only a cancellation calls off the rest."""
    execution = with_draw_in(status)
    before = execution.capability_state("draw")

    assert ENDS[end](execution)

    closed = status in ("ready", "running") or (status == "pending" and end == "cancelled")
    after = execution.capability_state("draw")
    assert after.status == ("cancelled" if closed else status)
    if closed:
        assert after.error == ("enough" if end == "cancelled" else f"the execution ended as {end}")
        assert after.started_at == before.started_at
    else:
        assert after == before
    assert execution.in_flight == 0
    assert not execution.mark_capability_failed("draw", "late")
    assert execution.capability_state("draw") == after


def test_start_needs_an_entry() -> None:
    execution = new_execution(BOOK)
    for count in (0, -1):
        with pytest.raises(InvalidInput, match="at least one entry"):
            execution.start({}, count)
    assert execution.status == "pending"


def test_what_is_in_flight_is_counted() -> None:
    execution = running()
    assert execution.in_flight == 2
    assert execution.complete_current_and_schedule(0) == 1
    assert execution.complete_current_and_schedule(3) == 3
    with pytest.raises(InvalidInput, match="-1 capabilities cannot follow"):
        execution.complete_current_and_schedule(-1)
    assert [execution.complete_current_and_schedule(0) for _ in range(3)] == [2, 1, 0]
    with pytest.raises(IllegalTransition, match="nothing in flight"):
        execution.complete_current_and_schedule(1)
    assert execution.in_flight == 0
    assert not execution.is_terminal


def test_times_and_errors() -> None:
    ticks: Iterator[datetime] = (datetime(2030, 1, 1, tzinfo=UTC) + timedelta(seconds=n) for n in range(99))
    execution = Execution(
        execution_id="e", correlation_id="c", instance_id="i", blueprint=BOOK, clock=lambda: next(ticks)
    )
    assert (execution.started_at, execution.completed_at, execution.error) == (None, None, "")

    execution.start({}, 1)
    execution.mark_capability_ready("draw", {})
    execution.mark_capability_running("draw")
    execution.mark_capability_failed("draw", ValueError("no ink"))
    execution.mark_failed(KeyError())

    draw = execution.capability_state("draw")
    assert draw.error == "no ink"
    seconds = [
        moment.second if moment else None
        for moment in (execution.started_at, draw.started_at, draw.completed_at, execution.completed_at)
    ]
    assert seconds == [0, 1, 2, 3]
    assert execution.error == "KeyError"


def test_an_error_is_stored_whatever_its_text_is() -> None:
    execution = running()
    execution.mark_failed(OSError("cannot read \udcff"))
    assert execution.error == "cannot read ?"


def test_detached_work_has_no_times_here_and_goes_on_elsewhere() -> None:
    execution = with_draw_in("detached")

    execution.mark_cancelled("enough")

    state = execution.capability_state("draw")
    assert state == CapabilityExecutionState(status=CapabilityStatus.DETACHED)
    assert execution.detached_capability_ids() == ["draw"]


def test_the_state_of_an_unknown_capability_is_the_zero_value() -> None:
    assert running().capability_state("nobody") == CapabilityExecutionState()
    assert CapabilityExecutionState().status is None


def test_what_is_given_and_handed_out_is_copied() -> None:
    """A caller that goes on changing its own lists changes nothing here."""
    execution = new_execution(BOOK)
    given: dict[str, Any] = {"pages": [1]}
    execution.start(given, 1)
    execution.mark_capability_ready("draw", given)
    execution.mark_capability_running("draw")
    execution.mark_capability_completed("draw", given)
    snapshot = execution.snapshot()

    for handed in (
        given,
        execution.initial_params(),
        execution.params("draw"),
        execution.result("draw"),
        execution.results()["draw"],
        execution.string_keyed_results()["draw"],
        snapshot.results["draw"],
        execution.snapshot().params["draw"],
        execution.snapshot().initial_params,
    ):
        handed["pages"].append(2)

    assert execution.results() == {"draw": {"pages": [1]}}
    assert execution.params("draw") == execution.initial_params() == {"pages": [1]}
    assert execution.params("print") == {}
    assert execution.result("print") is None

    execution.restore(snapshot)
    snapshot.results["draw"]["pages"].append(3)
    snapshot.states.clear()
    assert execution.result("draw") == {"pages": [1, 2]}
    assert execution.capability_state("draw").status == "completed"


def test_only_plain_data_is_taken_and_nothing_changes_otherwise() -> None:
    execution = running()
    before = execution.snapshot()

    with pytest.raises(NotPlainData, match="the parameters of draw"):
        execution.mark_capability_ready("draw", {"ink": object()})
    with pytest.raises(InvalidInput, match="must be a mapping"):
        execution.mark_capability_ready("draw", [1])  # type: ignore[arg-type]
    assert execution.snapshot() == before
    with pytest.raises(NotPlainData, match="its input"):
        new_execution(BOOK).start({"ink": object()}, 1)


def test_a_result_may_be_any_plain_data() -> None:
    execution = with_draw_in("running")
    execution.mark_capability_completed("draw", [1, None])
    assert execution.result("draw") == [1, None]


# --- waiting ---


def test_wait_observes_the_end_of_another_thread() -> None:
    execution = running()
    with ThreadPoolExecutor(3) as threads:
        waiting = [threads.submit(execution.wait, 30) for _ in range(3)]
        execution.mark_completed()
        assert [one.result(30) for one in waiting] == [None] * 3
    execution.wait(0)


@pytest.mark.parametrize(
    ("end", "error", "message"),
    [("failed", ExecutionFailed, "it broke"), ("cancelled", ExecutionCancelled, "enough")],
)
def test_wait_raises_how_it_ended(end: str, error: type[ExecutionError], message: str) -> None:
    execution = execution_in(end)

    with pytest.raises(error) as raised:
        execution.wait()

    assert isinstance(raised.value, ExecutionError)
    assert (raised.value.execution_id, raised.value.message) == ("book-7", message)


def test_wait_ends_with_its_time_or_its_scope_and_drives_nothing() -> None:
    execution, scope = running(), Latch()
    with pytest.raises(TimeoutError, match="book-7 is still running"):
        execution.wait(0.001)
    with pytest.raises(TimeoutError):
        execution.wait(0.001, until=scope)
    scope.set()
    with pytest.raises(CancelledError, match="has not ended"):
        execution.wait(until=scope)
    assert execution.status == "running"

    execution.mark_completed()
    execution.wait(until=scope)


def test_done_can_be_awaited_together_with_others_and_is_set_once() -> None:
    execution = running()
    told: list[str] = []
    execution.done.on_set(lambda: told.append("before"))
    take_back = execution.done.on_set(lambda: told.append("taken back"))
    take_back()

    execution.mark_completed()
    execution.mark_failed("late")
    execution.done.on_set(lambda: told.append("after"))

    assert told == ["before", "after"]
    assert execution.done.set() is False


# --- creation and restoring ---


def test_new_executions() -> None:
    execution = new_execution(BOOK)
    assert execution.correlation_id == execution.id
    assert execution.id != new_execution(BOOK).id
    assert (execution.instance_id, execution.parent_execution_id) == ("default", "")
    assert (execution.status, execution.in_flight) == ("pending", 0)
    assert {execution.capability_state(one).status for one in BOOK.capabilities} == {"pending"}

    task = new_detached_task(ExecutionBlueprint("print", ("print",)), "c", "tenant", execution.id)
    assert (task.correlation_id, task.instance_id, task.parent_execution_id) == ("c", "tenant", execution.id)
    assert task.status == "pending"


def test_ids_follow_their_rules() -> None:
    with pytest.raises(InvalidInput, match="no instance id"):
        new_execution(BOOK, "c", "a/b")
    with pytest.raises(InvalidInput, match="no execution id"):
        new_execution(BOOK, execution_id="a/b")
    with pytest.raises(InvalidInput, match="no execution id"):
        new_detached_task(BOOK, "c", "i", "")


def test_anything_with_capabilities_is_a_blueprint() -> None:
    execution = new_execution(SimpleNamespace(capabilities=["a", "1:b:2"]))
    assert execution.blueprint == ExecutionBlueprint("blueprint", ("a", "1:b:2"))


@pytest.mark.parametrize("capabilities", [("a", "a"), ("a b",), ("",), ("01:a",), (RECIPE,)])
def test_capabilities_of_a_blueprint_have_names_of_their_own(capabilities: tuple[str, ...]) -> None:
    assert RESERVED == RECIPE
    with pytest.raises(InvalidInput):
        ExecutionBlueprint("book", capabilities)


def test_restoring_brings_everything_back_and_opens_or_closes_done() -> None:
    execution = running()
    execution.mark_capability_ready("draw", {"page": 1})
    middle = execution.snapshot()
    execution.mark_cancelled("enough")
    end, ended = execution.snapshot(), execution.done

    execution.restore(middle)
    assert execution.snapshot() == middle
    assert not execution.done.is_set()
    assert ended.is_set()
    execution.mark_capability_running("draw")

    waits = execution.done
    execution.restore(end)
    assert execution.snapshot() == end
    assert waits.is_set()
    assert execution.done is waits


def test_the_snapshot_of_another_execution_is_refused() -> None:
    execution = running()
    with pytest.raises(InvalidInput, match="cannot be restored"):
        execution.restore(new_execution(BOOK).snapshot())


# --- threads ---


def together(count: int, act: Callable[[int], object]) -> list[object]:
    """Run `act(number)` in so many threads that begin at the same moment."""
    begin = threading.Barrier(count)

    def run(number: int) -> object:
        begin.wait(30)
        return act(number)

    with ThreadPoolExecutor(count) as threads:
        return [one.result(30) for one in [threads.submit(run, n) for n in range(count)]]


def test_of_many_ends_at_once_one_wins() -> None:
    """G6, G14: the first reason stays, and everybody else is told."""
    for _ in range(50):
        execution = running()
        told: list[int] = []
        execution.done.on_set(partial(told.append, 1))

        def end(number: int, execution: Execution = execution) -> object:
            return execution.mark_failed(str(number)) if number % 2 else execution.mark_cancelled(str(number))

        won = [n for n, answer in enumerate(together(8, end)) if answer]

        assert len(won) == len(told) == 1
        assert execution.error == str(won[0])
        assert execution.status == ("failed" if won[0] % 2 else "cancelled")


def test_no_count_is_lost_between_threads() -> None:
    execution = new_execution(BOOK)
    execution.start({}, 1)

    def schedule(_: int) -> None:
        for _ in range(500):
            execution.complete_current_and_schedule(2)

    together(8, schedule)

    assert execution.in_flight == 1 + 8 * 500


def test_of_many_results_at_once_one_is_recorded_and_snapshots_are_whole() -> None:
    """G4: a snapshot never has a completed capability without its result."""
    names = tuple(f"c{n}" for n in range(30))
    execution = new_execution(ExecutionBlueprint("b", names))
    execution.start({}, 1)
    torn: list[str] = []

    def work(number: int) -> int:
        recorded = 0
        for name in names:
            try:
                execution.mark_capability_ready(name, {"by": number})
                execution.mark_capability_running(name)
                execution.mark_capability_completed(name, {"by": number})
                recorded += 1
            except IllegalTransition:
                pass
            snapshot = execution.snapshot()
            torn.extend(
                one
                for one, state in snapshot.states.items()
                if (state.status == "completed") != (one in snapshot.results)
            )
        return recorded

    recorded = together(6, work)

    assert sum(int(str(one)) for one in recorded) == len(names)
    assert torn == []
    assert all(execution.params(one) == execution.result(one) for one in names)
