"""Running one task once: from its recorded parameters to an outcome, whatever the user's code does."""

from __future__ import annotations

import asyncio
import inspect
import logging
import os
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

from tenure.engine.context import TaskContext, log_fields, storable
from tenure.engine.definitions import TaskDefinition, recipe_running
from tenure.engine.signals import ControlSignal, Withdraw
from tenure.errors import InvalidInput, Malformed, RecipeMisfit, TenureError
from tenure.model.data import decode, encode
from tenure.model.retry import RetryIn
from tenure.store.grants import Grant

log = logging.getLogger(__name__)

ERROR_LIMIT = 4000
#: How often a running coroutine's slot looks whether it was asked to stop.
ASKED_SECONDS = 0.1


@dataclass(frozen=True, slots=True)
class Completed:
    """The task returned; `payload` is its encoded result.

    `directive` is what it requires of the job from now on (`ctx.suspend`), as it is stored.
    """

    payload: bytes
    directive: str | None = None


@dataclass(frozen=True, slots=True)
class Failed:
    """The task failed for good."""

    error: str
    error_type: str


@dataclass(frozen=True, slots=True)
class TryAgain:
    """The attempt failed, and its retry policy asks for another one."""

    error: str
    error_type: str
    delay: timedelta


@dataclass(frozen=True, slots=True)
class Withdrawn:
    """The task was asked to stop, and did. That is no failure (G14)."""

    reason: str


Outcome = Completed | Failed | TryAgain | Withdrawn


def run_task(
    task: TaskDefinition[..., Any], grant: Grant, context: TaskContext, *, payload_limit: int
) -> Outcome:
    """Run user code under a started lease.

    Raises:
        LeaseLost, Unconfirmed, StoreUnreachable: the task's own report found that this slot is not the owner
            any more, or cannot know whether it is.
    """
    token, process = recipe_running.set(None), os.getpid()
    try:
        injected = {task.context_parameter: context} if task.context_parameter else {}
        args, kwargs = task.signature.load_call(
            decode(grant.params, where=_where(grant, "the parameters")), injected
        )
        result = task.func(*args, **kwargs)
        if inspect.isawaitable(result):
            result = asyncio.run(_wait_for(result, context))
    except Withdraw as asked:
        return Withdrawn(str(asked))
    except ControlSignal:
        raise
    except BaseException as error:  # a task may raise anything; it is one failed attempt with its cause
        _leave_if_forked(process)
        if context.lost is not None:
            raise context.lost from error
        return _judge(task, grant, error)
    finally:
        recipe_running.reset(token)
        directive = context.end()
    _leave_if_forked(process)
    if context.lost is not None:
        raise context.lost
    try:
        plain = task.signature.dump_result(result)
        payload = encode(plain, limit=payload_limit, where=_where(grant, "the result"))
        return Completed(payload, directive)
    except InvalidInput as error:
        # Running it again would give the same, and its effect has happened: no retry.
        return Failed(describe(error), type(error).__name__)


def describe(error: BaseException) -> str:
    """One readable line for a record."""
    try:
        # What a record says is said of its execution.
        text = error.message if isinstance(error, RecipeMisfit) else str(error)
    except Exception:  # noqa: BLE001  # user code makes the text, and may raise anything
        text = "it has no text, since making one raised another error"
    if not isinstance(error, TenureError):
        text = f"{type(error).__name__}: {text}"
    return storable(text[:ERROR_LIMIT])


def _judge(task: TaskDefinition[..., Any], grant: Grant, error: BaseException) -> Outcome:
    log.warning(
        "attempt %d at %s of execution %s failed: %s",
        grant.attempt,
        grant.capability,
        grant.execution,
        describe(error),
        exc_info=error,
        extra=log_fields(grant),
    )
    verdict = task.retry.verdict(grant.failures + 1, error)
    if isinstance(verdict, RetryIn) and not isinstance(error, Malformed):
        return TryAgain(describe(error), type(error).__name__, verdict.delay)
    return Failed(describe(error), type(error).__name__)


def _where(grant: Grant, what: str) -> str:
    return f"execution {grant.execution}: {what} of {grant.capability}"


def _leave_if_forked(process: int) -> None:
    """A child that user code forked must not come back as if it were the slot."""
    if os.getpid() != process:
        os._exit(1)


async def _wait_for(result: Any, context: TaskContext) -> Any:
    """Await it; if the task is asked to stop, its coroutine is cancelled at its await."""
    running, asked = asyncio.ensure_future(result), False
    while not running.done():
        await asyncio.wait({running}, timeout=ASKED_SECONDS)
        if context.cancelled and not asked and not running.done():
            asked = running.cancel()
    if asked and running.cancelled():
        context.check_cancelled()
    return running.result()
