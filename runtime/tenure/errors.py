"""Every error Tenure raises, as one tree.

The name says what happened; the message names the execution and says what to do next.

    TenureError
    ├── InvalidInput              what was given cannot be accepted; nothing was stored
    │   ├── NotPlainData
    │   ├── PayloadTooLarge
    │   ├── InvalidQuantity
    │   ├── InvalidDuration
    │   ├── UnknownRecipe
    │   ├── UnknownTask
    │   ├── UnguardedTask
    │   ├── ModuleNotLoadable
    │   └── RecipeMisfit
    ├── ExecutionNotFound
    ├── ExecutionExists
    ├── ExecutionError
    │   ├── ExecutionFailed
    │   └── ExecutionCancelled
    ├── TaskFailed
    ├── TaskCancelled
    ├── TaskTimeout
    ├── DirectCall
    ├── NonDeterministicRecipe
    ├── ReplayCacheMiss
    ├── LeaseLost
    ├── Unconfirmed
    ├── Malformed
    │   └── NewerSchema
    ├── IllegalTransition
    ├── StoreFull
    ├── StoreUnreachable
    ├── UnsuitableServer
    └── EmbeddedServerError
"""

from __future__ import annotations

from enum import StrEnum


class TenureError(Exception):
    """The root: `except TenureError` catches whatever Tenure itself raises."""


class InvalidInput(TenureError, ValueError):
    """What was given cannot be accepted. Nothing was stored and nothing was changed."""


class NotPlainData(InvalidInput):
    """A parameter or result is neither plain data nor a pydantic model."""


class PayloadTooLarge(InvalidInput):
    """An encoded payload is over the limit; store the data elsewhere and pass a reference."""


class InvalidQuantity(InvalidInput):
    """A resource quantity that is malformed, rounds, overflows, or is not positive."""


class InvalidDuration(InvalidInput):
    """A duration that cannot be read."""


class UnknownRecipe(InvalidInput):
    """No recipe of that name is registered in this process."""


class UnknownTask(InvalidInput):
    """A recipe calls a function that is not a registered task."""


class UnguardedTask(InvalidInput):
    """Demand is staged for a task that nothing guards, so nothing would enforce it."""


class ModuleNotLoadable(InvalidInput):
    """A module named with --import raised, or does not exist."""


class RecipeMisfit(InvalidInput):
    """The recorded input of an execution, or what its recipe returns, does not fit the recipe."""

    def __init__(self, execution_id: str, message: str) -> None:
        super().__init__(f"execution {execution_id}: {message}")
        self.execution_id = execution_id
        self.message = message


class ExecutionNotFound(TenureError, LookupError):
    """No execution of that id belongs to this instance."""


class ExecutionExists(TenureError):
    """The id is taken by an execution of another recipe or input; nothing was changed."""


class ExecutionError(TenureError):
    """How a failed or cancelled execution ended (seed 002). Carries its id for attribution."""

    def __init__(self, execution_id: str, message: str) -> None:
        super().__init__(f"execution {execution_id}: {message}")
        self.execution_id = execution_id
        self.message = message


class ExecutionFailed(ExecutionError):
    """The execution ended as failed."""


class ExecutionCancelled(ExecutionError):
    """The execution ended as cancelled; cancellation is not failure (G14)."""


class TaskFailed(TenureError):
    """Raised inside a recipe by a task call that failed for good. A recipe may catch it."""

    def __init__(self, capability: str, message: str) -> None:
        super().__init__(f"task {capability} failed: {message}")
        self.capability = capability
        self.message = message


class TaskCancelled(TenureError):
    """Raised inside a recipe by a task call that was closed before it had an outcome."""

    def __init__(self, capability: str, message: str) -> None:
        super().__init__(f"task {capability} was cancelled: {message}")
        self.capability = capability
        self.message = message


class TaskTimeout(TenureError):
    """An attempt took longer than its task allows. Retry policies see it like any other exception."""


class DirectCall(TenureError):
    """A task was called as a plain function inside a running recipe; use `run.call`."""


class NonDeterministicRecipe(TenureError):
    """A replay asked for another task or input than is recorded at its coordinates, or ended otherwise."""

    def __init__(self, execution_id: str, capability: str, message: str) -> None:
        super().__init__(f"execution {execution_id}: {message}")
        self.execution_id = execution_id
        self.message = message
        #: Where: the coordinates of what is recorded there, or `recipe` for the end of the execution.
        self.capability = capability


class MissReason(StrEnum):
    """What a read-only replay has come to."""

    #: A task, a member of a map or a recorded value.
    TASK_RESULT_MISSING = "task_result_missing"
    #: The end of the recipe.
    JOB_RESULT_MISSING = "job_result_missing"
    #: A timer.
    AWAIT_NOT_READY = "await_not_ready"


class ReplayCacheMiss(TenureError):
    """A read-only replay has come to what is not recorded; it neither runs it nor waits for it (G13)."""

    def __init__(self, execution_id: str, capability: str, reason: MissReason, message: str) -> None:
        super().__init__(f"execution {execution_id}: {message}")
        self.execution_id = execution_id
        self.message = message
        #: Where: the coordinates of the call, or `recipe` for the result of the execution.
        self.capability = capability
        self.reason = reason


class LeaseLost(TenureError):
    """A write under a stale or released token. Nothing was changed (G2)."""


class Unconfirmed(TenureError):
    """A reply was lost beyond the resend budget: the caller is not the owner any more (G16)."""


class Malformed(TenureError):
    """Stored bytes that cannot be read, or are from a newer schema. The bytes are kept (G17)."""


class NewerSchema(Malformed):
    """Stored by a newer Tenure: it says something that this version does not know."""


class IllegalTransition(TenureError):
    """A status change that the transition table does not have."""


class StoreFull(TenureError):
    """The server refused a write because its memory limit is reached. Nothing was half-written."""


class StoreUnreachable(TenureError):
    """The server does not answer."""


class UnsuitableServer(TenureError):
    """The server is too old, or its settings could lose data."""


class EmbeddedServerError(TenureError):
    """The embedded server cannot be started or joined."""
