"""Every status there is, and the one table of moves for each kind.

A status changes by way of these tables and nowhere else: here through `check_move`, and in the store's
scripts, which are given the same ones. The diagrams in the README are rendered from them. Sources: the
design's section 3, and the state rules of seed 002.
"""

from collections.abc import Iterable, Mapping
from enum import StrEnum
from types import MappingProxyType
from typing import Any, Final, TypeVar

from tenure.errors import IllegalTransition


class ExecutionStatus(StrEnum):
    PENDING = "pending"
    RUNNING = "running"
    COMPLETED = "completed"
    FAILED = "failed"
    CANCELLED = "cancelled"


class CapabilityStatus(StrEnum):
    PENDING = "pending"
    READY = "ready"
    RUNNING = "running"
    COMPLETED = "completed"
    FAILED = "failed"
    DETACHED = "detached"
    CANCELLED = "cancelled"
    SKIPPED = "skipped"


class InvocationState(StrEnum):
    """Where one attempt stands. A settled one also has an `InvocationOutcome`."""

    DISPATCHING = "dispatching"
    CLAIMED = "claimed"
    STARTED = "started"
    UNKNOWN = "unknown"
    SETTLED = "settled"


class InvocationOutcome(StrEnum):
    COMPLETED = "completed"
    FAILED = "failed"
    CANCELLED = "cancelled"
    NOT_STARTED = "not_started"


class SessionState(StrEnum):
    READY = "ready"
    DRAINING = "draining"
    GONE = "gone"


class Effects(StrEnum):
    """Whether a task may run again when nobody knows how its last attempt ended."""

    REPEATABLE = "repeatable"
    ONCE = "once"


class RouteIndex(StrEnum):
    """The nine indexes of guarantee G19: a route of a live execution is in exactly one."""

    WAITING = "waiting"
    LEASED = "leased"
    DUE = "due"
    TASKS = "tasks"
    INPUT = "input"
    CHILDREN = "children"
    ENVIRONMENT = "environment"
    UNKNOWN = "unknown"
    BLOCKED = "blocked"


class WaitingReason(StrEnum):
    """Why an execution is not finished. The order of the members is the order of precedence."""

    CANCELLING = "cancelling"
    BLOCKED = "blocked"
    UNKNOWN_OUTCOME = "unknown_outcome"
    CRASH_CONCERN = "crash_concern"
    ACTIVE = "active"
    READY = "ready"
    AWAITING_ENVIRONMENT = "awaiting_environment"
    AWAITING_INPUT = "awaiting_input"
    AWAITING_CHILDREN = "awaiting_children"
    AWAITING_TASKS = "awaiting_tasks"
    AWAITING_TIME = "awaiting_time"

    @classmethod
    def first(cls, reasons: Iterable["WaitingReason"]) -> "WaitingReason | None":
        """The reason an execution shows, of all those its routes have; None when there is none."""
        held = frozenset(reasons)
        return next((reason for reason in cls if reason in held), None)

    @classmethod
    def of(cls, index: RouteIndex) -> "WaitingReason":
        """What a route in `index` waits for; no index alone tells of `cancelling` or `crash_concern`."""
        return REASON_OF_INDEX[index]


REASON_OF_INDEX: Final[Mapping[RouteIndex, WaitingReason]] = MappingProxyType(
    {
        RouteIndex.WAITING: WaitingReason.READY,
        RouteIndex.LEASED: WaitingReason.ACTIVE,
        RouteIndex.DUE: WaitingReason.AWAITING_TIME,
        RouteIndex.TASKS: WaitingReason.AWAITING_TASKS,
        RouteIndex.INPUT: WaitingReason.AWAITING_INPUT,
        RouteIndex.CHILDREN: WaitingReason.AWAITING_CHILDREN,
        RouteIndex.ENVIRONMENT: WaitingReason.AWAITING_ENVIRONMENT,
        RouteIndex.UNKNOWN: WaitingReason.UNKNOWN_OUTCOME,
        RouteIndex.BLOCKED: WaitingReason.BLOCKED,
    }
)

# Every member has its line: a status without moves is terminal, one that is missing is an error.
EXECUTION_MOVES: Final[Mapping[ExecutionStatus, frozenset[ExecutionStatus]]] = MappingProxyType(
    {
        ExecutionStatus.PENDING: frozenset(
            {ExecutionStatus.RUNNING, ExecutionStatus.FAILED, ExecutionStatus.CANCELLED}
        ),
        ExecutionStatus.RUNNING: frozenset(
            {ExecutionStatus.COMPLETED, ExecutionStatus.FAILED, ExecutionStatus.CANCELLED}
        ),
        ExecutionStatus.COMPLETED: frozenset(),
        ExecutionStatus.FAILED: frozenset(),
        ExecutionStatus.CANCELLED: frozenset(),
    }
)

# `detached` is reached from `ready` and not from `running`: the work was never invoked here (seed 002).
CAPABILITY_MOVES: Final[Mapping[CapabilityStatus, frozenset[CapabilityStatus]]] = MappingProxyType(
    {
        CapabilityStatus.PENDING: frozenset(
            {
                CapabilityStatus.READY,
                CapabilityStatus.FAILED,
                CapabilityStatus.CANCELLED,
                CapabilityStatus.SKIPPED,
            }
        ),
        CapabilityStatus.READY: frozenset(
            {
                CapabilityStatus.RUNNING,
                CapabilityStatus.FAILED,
                CapabilityStatus.DETACHED,
                CapabilityStatus.CANCELLED,
            }
        ),
        CapabilityStatus.RUNNING: frozenset(
            {CapabilityStatus.COMPLETED, CapabilityStatus.FAILED, CapabilityStatus.CANCELLED}
        ),
        CapabilityStatus.COMPLETED: frozenset(),
        CapabilityStatus.FAILED: frozenset(),
        CapabilityStatus.DETACHED: frozenset(),
        CapabilityStatus.CANCELLED: frozenset(),
        CapabilityStatus.SKIPPED: frozenset(),
    }
)

# `dispatching` and `claimed` may be settled (withdrawn, handed off, proven not started) or, where that
# proof is missing, become `unknown`. Nothing leads back: running again is another invocation.
INVOCATION_MOVES: Final[Mapping[InvocationState, frozenset[InvocationState]]] = MappingProxyType(
    {
        InvocationState.DISPATCHING: frozenset(
            {InvocationState.CLAIMED, InvocationState.UNKNOWN, InvocationState.SETTLED}
        ),
        InvocationState.CLAIMED: frozenset(
            {InvocationState.STARTED, InvocationState.UNKNOWN, InvocationState.SETTLED}
        ),
        InvocationState.STARTED: frozenset({InvocationState.UNKNOWN, InvocationState.SETTLED}),
        InvocationState.UNKNOWN: frozenset({InvocationState.SETTLED}),
        InvocationState.SETTLED: frozenset(),
    }
)

# By type and not by value: members of different kinds with the same text are equal to each other.
_TABLES: Final[Mapping[type[StrEnum], Mapping[Any, frozenset[Any]]]] = MappingProxyType(
    {
        ExecutionStatus: EXECUTION_MOVES,
        CapabilityStatus: CAPABILITY_MOVES,
        InvocationState: INVOCATION_MOVES,
    }
)

Status = TypeVar("Status", ExecutionStatus, CapabilityStatus, InvocationState)
AnyStatus = TypeVar("AnyStatus", bound=StrEnum)


def may_move(current: Status, to: Status) -> bool:
    """Whether the table of this kind of status has the move."""
    return to in _TABLES[type(current)][current]


def check_move(current: Status, to: Status, *, subject: str) -> None:
    """Raise `IllegalTransition` unless the table has the move.

    `subject` says whose status it is, for the message: "execution book-7".
    """
    if may_move(current, to):
        return
    moves = _TABLES[type(current)][current]
    allowed = ", ".join(member for member in type(current) if member in moves) or "nothing, it is final"
    raise IllegalTransition(
        f"{subject} is {current} and cannot become {to}; from there it may become {allowed}"
    )


def is_terminal(status: ExecutionStatus | CapabilityStatus | InvocationState) -> bool:
    """Whether nothing can follow `status`."""
    return not _TABLES[type(status)][status]


def mermaid(table: Mapping[AnyStatus, frozenset[AnyStatus]]) -> str:
    """Render a table of moves as the state diagram in the README; the first row is where it begins."""
    lines = ["stateDiagram-v2", f"    [*] --> {next(iter(table))}"]
    for status, moves in table.items():
        lines += [f"    {status} --> {to}" for to in table if to in moves]
        if not moves:
            lines.append(f"    {status} --> [*]")
    return "\n".join(lines) + "\n"
