"""What a recipe is written with, and how one is run."""

from __future__ import annotations

import uuid
from collections.abc import Iterable
from contextlib import AbstractContextManager
from datetime import UTC, datetime
from typing import Any, ParamSpec, TypeVar, cast

from tenure.engine.definitions import RecipeDefinition, TaskDefinition, recipe_running
from tenure.engine.frame import Frame
from tenure.errors import InvalidInput, RecipeMisfit, UnknownTask
from tenure.model.data import decode, encode
from tenure.model.duration import Duration, parse_duration
from tenure.model.needs import Needs, check_needs, needs_of

P = ParamSpec("P")
R = TypeVar("R")


class Run:
    """The first parameter of a recipe: durable task calls, scopes of needs, recorded values.

    A recipe is replayed from the top whenever it goes on. Task calls that have a recorded result return it;
    so the order of calls and their arguments must follow from the input and from recorded results alone.
    """

    def __init__(self, frame: Frame) -> None:
        self._frame = frame

    @property
    def execution_id(self) -> str:
        """The id of this execution."""
        return self._frame.execution

    @property
    def instance_id(self) -> str:
        """The owner of this execution."""
        return self._frame.instance

    @property
    def correlation_id(self) -> str:
        """What the starter gave to find related executions by; the id itself by default."""
        return self._frame.correlation

    def call(
        self, task: TaskDefinition[..., R], /, *args: Any, needs: Needs | None = None, **kwargs: Any
    ) -> R:
        """Call a task and return its result, which is recorded: a completed call never runs again (G5).

        Args:
            needs: what this call needs beyond the task's own declaration; its properties win.

        Raises:
            TaskFailed: it failed for good. A recipe may catch this and go on.
            TaskCancelled: it was closed before it had an outcome.
            InvalidInput: an argument that the task does not take, or that is not plain data.
        """
        return self._frame.call(_checked(task), args, kwargs, _needs(task, needs))  # type: ignore[no-any-return]

    def map(
        self,
        task: TaskDefinition[..., R],
        items: Iterable[Any],
        /,
        *,
        needs: Needs | None = None,
        **kwargs: Any,
    ) -> list[R]:
        """Call a task once per item, in parallel over all fitting slots; results in the order of items.

        Each item is the task's first argument; `kwargs` are the same for all.

        Raises:
            TaskFailed: one of them failed for good; those that had not ended were closed as cancelled.
        """
        return self._frame.map(_checked(task), list(items), kwargs, _needs(task, needs))

    def needs(self, needs: Needs | None = None, /, **properties: Any) -> AbstractContextManager[None]:
        """A scope, for `with`: calls inside need this, which wins over what is outside; dropped on leaving.

        It is given as `Needs(...)` or by its properties: `with run.needs(memory="8Gi"):`. A property that is
        left out stays as it is outside; none can be taken back.

        Raises:
            InvalidInput: it cannot be read. At the next call, if it is not used with `with`.
        """
        return self._frame.scope(needs_of(needs, properties, where="run.needs"))

    def sleep(self, duration: Duration) -> None:
        """Wait by the store's clock ("90s", "30d", seconds or a timedelta); no worker is held."""
        self._frame.sleep(parse_duration(duration, name="run.sleep"))

    def now(self) -> datetime:
        """The time of day in UTC, recorded: a replay sees the same."""
        return cast("datetime", self._frame.value("now", lambda: datetime.now(UTC)))

    def uuid(self) -> uuid.UUID:
        """A random UUID, recorded: a replay sees the same."""
        return uuid.UUID(str(self._frame.value("uuid", lambda: str(uuid.uuid4()))))


def run_recipe(
    definition: RecipeDefinition[Any], frame: Frame, params: bytes, *, payload_limit: int
) -> bytes:
    """Run a recipe's own code from the top; its encoded result.

    Raises whatever that code does. `Malformed` if its input cannot be read, `RecipeMisfit` if that does not
    fit, or its result cannot be recorded, and the signal that ended the frame, also if the recipe has
    swallowed it.
    """
    token = recipe_running.set(definition.name)
    try:
        args, kwargs = _load_input(definition, frame, params)
        result = definition.func(*args, **kwargs)
        frame.check_live()
        return _dump_result(definition, frame, result, payload_limit=payload_limit)
    finally:
        recipe_running.reset(token)


def _load_input(
    definition: RecipeDefinition[Any], frame: Frame, params: bytes
) -> tuple[tuple[Any, ...], dict[str, Any]]:
    plain = decode(params, where=f"execution {frame.execution}: its input")
    try:
        return definition.signature.load_call(plain, {definition.skipped[0]: Run(frame)})
    except InvalidInput as error:
        raise RecipeMisfit(
            frame.execution, f"its recorded input does not fit the recipe's parameters: {error}"
        ) from error


def _dump_result(
    definition: RecipeDefinition[Any], frame: Frame, result: object, *, payload_limit: int
) -> bytes:
    try:
        plain = definition.signature.dump_result(result)
        return encode(plain, limit=payload_limit, where="its result")
    except InvalidInput as error:
        raise RecipeMisfit(frame.execution, f"what the recipe returns cannot be recorded: {error}") from error


def _needs(task: TaskDefinition[..., Any], needs: object) -> Needs:
    where = f"needs= of a call of {task.name} (a parameter of the task that has this name goes by position)"
    return check_needs(needs, where=where)


def _checked(task: object) -> TaskDefinition[..., Any]:
    if isinstance(task, TaskDefinition):
        return task
    name = getattr(task, "__name__", repr(task))
    raise UnknownTask(f"{name} is not a task; declare it with @task to call it from a recipe")
