"""Statuses move by their tables and by nothing else."""

from collections.abc import Mapping
from enum import StrEnum
from itertools import product

import pytest

from tenure.errors import IllegalTransition
from tenure.model.status import (
    CAPABILITY_MOVES,
    EXECUTION_MOVES,
    INVOCATION_MOVES,
    REASON_OF_INDEX,
    CapabilityStatus,
    ExecutionStatus,
    InvocationState,
    RouteIndex,
    WaitingReason,
    check_move,
    is_terminal,
    may_move,
    mermaid,
)

EXECUTION = {
    "pending": "running failed cancelled",
    "running": "completed failed cancelled",
    "completed": "",
    "failed": "",
    "cancelled": "",
}
CAPABILITY = {
    "pending": "ready failed cancelled skipped",
    "ready": "running failed cancelled detached",
    "running": "completed failed cancelled",
    "completed": "",
    "failed": "",
    "detached": "",
    "cancelled": "",
    "skipped": "",
}
INVOCATION = {
    "dispatching": "claimed unknown settled",
    "claimed": "started unknown settled",
    "started": "unknown settled",
    "unknown": "settled",
    "settled": "",
}
KINDS: list[tuple[type[StrEnum], dict[str, str]]] = [
    (ExecutionStatus, EXECUTION),
    (CapabilityStatus, CAPABILITY),
    (InvocationState, INVOCATION),
]


@pytest.mark.parametrize(("kind", "restated"), KINDS)
def test_a_status_moves_only_where_its_table_says(kind: type[StrEnum], restated: dict[str, str]) -> None:
    for current, to in product(kind, kind):
        if to in restated[current].split():
            check_move(current, to, subject="it")  # type: ignore[type-var]
        else:
            with pytest.raises(IllegalTransition, match=f"it is {current} and cannot become {to}"):
                check_move(current, to, subject="it")  # type: ignore[type-var]


@pytest.mark.parametrize(("kind", "restated"), KINDS)
def test_what_moves_nowhere_is_terminal(kind: type[StrEnum], restated: dict[str, str]) -> None:
    terminal = {str(status) for status in kind if is_terminal(status)}  # type: ignore[arg-type]
    assert terminal == {status for status, moves in restated.items() if not moves}


def test_the_message_says_what_would_be_allowed() -> None:
    with pytest.raises(IllegalTransition, match=r"execution a is running .* completed, failed, cancelled"):
        check_move(ExecutionStatus.RUNNING, ExecutionStatus.PENDING, subject="execution a")
    with pytest.raises(IllegalTransition, match="nothing, it is final"):
        check_move(CapabilityStatus.DETACHED, CapabilityStatus.RUNNING, subject="capability 1:a")
    assert not may_move(InvocationState.SETTLED, InvocationState.SETTLED)


@pytest.mark.parametrize("table", [EXECUTION_MOVES, CAPABILITY_MOVES, INVOCATION_MOVES])
def test_every_status_can_be_reached(table: Mapping[StrEnum, frozenset[StrEnum]]) -> None:
    reached = {next(iter(table))}
    while (more := reached | {to for status in reached for to in table[status]}) != reached:
        reached = more
    assert reached == set(table)


def test_an_execution_shows_the_first_reason_that_holds() -> None:
    held = [WaitingReason.AWAITING_TIME, WaitingReason.ACTIVE, WaitingReason.READY]
    assert WaitingReason.first(held) is WaitingReason.ACTIVE
    assert WaitingReason.first([*held, WaitingReason.CANCELLING]) is WaitingReason.CANCELLING
    assert WaitingReason.first([]) is None


def test_every_index_has_a_reason_of_its_own() -> None:
    assert set(REASON_OF_INDEX) == set(RouteIndex)
    reasons = {WaitingReason.of(index) for index in RouteIndex}
    assert set(WaitingReason) - reasons == {WaitingReason.CANCELLING, WaitingReason.CRASH_CONCERN}
    assert len(reasons) == len(RouteIndex)


def test_the_diagram_is_the_table() -> None:
    assert mermaid(EXECUTION_MOVES) == (
        "stateDiagram-v2\n"
        "    [*] --> pending\n"
        "    pending --> running\n"
        "    pending --> failed\n"
        "    pending --> cancelled\n"
        "    running --> completed\n"
        "    running --> failed\n"
        "    running --> cancelled\n"
        "    completed --> [*]\n"
        "    failed --> [*]\n"
        "    cancelled --> [*]\n"
    )
