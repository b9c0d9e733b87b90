"""Tasks and recipes as application code declares them, and the set of them that a process has loaded.

Only what is registered here ever runs: a name from Redis is looked up, never imported (G18).
"""

from __future__ import annotations

import importlib
import inspect
import sys
from collections.abc import Callable, Coroutine, Iterable, Iterator, Sequence
from contextvars import ContextVar
from dataclasses import dataclass, field
from datetime import timedelta
from functools import update_wrapper
from types import ModuleType
from typing import Any, Generic, ParamSpec, TypeVar, overload

from tenure.errors import DirectCall, InvalidInput, ModuleNotLoadable
from tenure.model.duration import Duration, parse_duration
from tenure.model.names import check_task_name
from tenure.model.needs import Needs, check_needs
from tenure.model.retry import ONE_ATTEMPT, Retry
from tenure.model.signature import Signature, injected_parameter
from tenure.model.status import Effects
from tenure.store.sessions import Catalogue

P = ParamSpec("P")
R = TypeVar("R")

#: How long an attempt may take if its task does not say.
ATTEMPT_TIMEOUT = "1d"

#: The name of the recipe whose own code is running in this context, if any.
recipe_running: ContextVar[str | None] = ContextVar("recipe_running", default=None)


class TaskDefinition(Generic[P, R]):
    """A registered function. Called directly it is the plain function; recipes use `run.call`."""

    def __init__(
        self,
        func: Callable[P, R],
        *,
        name: str,
        needs: Needs,
        retry: Retry,
        timeout: timedelta | None,
        effects: Effects,
    ) -> None:
        self.func = func
        self.name = check_task_name(name)
        self.needs = needs
        self.retry = retry
        self.timeout = timeout
        self.effects = effects
        self.context_parameter = injected_parameter(func, injected="TaskContext", named="ctx")
        self.signature = Signature(func, skip=(self.context_parameter,) if self.context_parameter else ())
        update_wrapper(self, func)

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> R:
        recipe_name = recipe_running.get()
        if recipe_name is not None:
            raise DirectCall(
                f"recipe {recipe_name} calls task {self.name} directly, so its result would not be recorded; "
                f"write run.call({self.name}, ...)"
            )
        return self.func(*args, **kwargs)

    def __repr__(self) -> str:
        return f"<task {self.name}>"


class RecipeDefinition(Generic[R]):
    """A registered recipe. An execution is pinned to its name and version."""

    def __init__(self, func: Callable[..., R], *, name: str, version: str, needs: Needs) -> None:
        if inspect.iscoroutinefunction(func) or inspect.isgeneratorfunction(func):
            raise InvalidInput(
                f"recipe {name} is no plain function: recipes are synchronous, tasks may be async"
            )
        self.func = func
        self.name = check_task_name(name, what="recipe name")
        self.version = check_task_name(f"v{version}", what="recipe version")[1:]
        self.needs = needs
        self.skipped = _first_parameter(func)
        self.signature = Signature(func, skip=self.skipped)
        update_wrapper(self, func)

    @property
    def key(self) -> str:
        """`name@version`, as sessions advertise it."""
        return f"{self.name}@{self.version}"

    def __call__(self, *args: Any, **kwargs: Any) -> R:
        return self.func(*args, **kwargs)

    def __repr__(self) -> str:
        return f"<recipe {self.key}>"


@overload
def task(func: Callable[P, Coroutine[Any, Any, R]], /) -> TaskDefinition[P, R]: ...
@overload
def task(func: Callable[P, R], /) -> TaskDefinition[P, R]: ...
@overload
def task(
    *,
    name: str | None = None,
    needs: Needs | None = None,
    retry: Retry | None = None,
    timeout: Duration | None = ATTEMPT_TIMEOUT,
    effects: str = "repeatable",
) -> Callable[[Callable[P, R]], TaskDefinition[P, R]]: ...
def task(
    func: Callable[P, R] | None = None,
    /,
    *,
    name: str | None = None,
    needs: Needs | None = None,
    retry: Retry | None = None,
    timeout: Duration | None = ATTEMPT_TIMEOUT,
    effects: str = "repeatable",
) -> Any:
    """Register a function as a task.

    Args:
        name: how recipes and workers know it; the function's name by default. Recorded, so keep it.
        needs: what the slot that runs it must have; unspecified by default.
        retry: when to try again after an exception; one attempt by default.
        timeout: how long one attempt may take, a day by default; None is without limit. An attempt that takes
            longer is stopped with its process, and is a failure like an exception.
        effects: "repeatable" (it may run again when a worker is lost) or "once" (never run again on a guess).

    Raises:
        InvalidInput: a name or `effects` that is not allowed.
    """

    def define(target: Callable[P, R]) -> TaskDefinition[P, R]:
        try:
            kind = Effects(effects)
        except ValueError:
            raise InvalidInput(
                f"task {target.__name__}: effects is 'repeatable' or 'once', not {effects!r}"
            ) from None
        return TaskDefinition(
            target,
            name=name or target.__name__,
            needs=check_needs(needs, where=f"task {target.__name__}: needs"),
            retry=retry or ONE_ATTEMPT,
            timeout=None
            if timeout is None
            else parse_duration(timeout, name=f"timeout of {target.__name__}"),
            effects=kind,
        )

    return define(func) if func is not None else define


@overload
def recipe(func: Callable[..., R], /) -> RecipeDefinition[R]: ...
@overload
def recipe(
    *, name: str | None = None, version: str = "1", needs: Needs | None = None
) -> Callable[[Callable[..., R]], RecipeDefinition[R]]: ...
def recipe(
    func: Callable[..., R] | None = None,
    /,
    *,
    name: str | None = None,
    version: str = "1",
    needs: Needs | None = None,
) -> Any:
    """Register a function as a recipe. Its first parameter is the `Run`; the others are its input.

    Args:
        name: the function's name by default.
        version: executions stay with the version they were started with. Change it when the order of task
            calls changes.
        needs: what a slot must have to replay the recipe, and the base for its tasks' needs.
    """

    def define(target: Callable[..., R]) -> RecipeDefinition[R]:
        return RecipeDefinition(
            target,
            name=name or target.__name__,
            version=version,
            needs=check_needs(needs, where=f"recipe {target.__name__}: needs"),
        )

    return define(func) if func is not None else define


@dataclass(slots=True)
class Definitions:
    """The tasks (by name) and recipes (by `name@version`) that a process has loaded."""

    tasks: dict[str, TaskDefinition[..., Any]] = field(default_factory=dict)
    recipes: dict[str, RecipeDefinition[Any]] = field(default_factory=dict)

    @property
    def catalogue(self) -> Catalogue:
        """What a session advertises."""
        return Catalogue(frozenset(self.tasks), frozenset(self.recipes))

    def add(self, definition: TaskDefinition[..., Any] | RecipeDefinition[Any]) -> None:
        """Add one. Raises `InvalidInput` if another one has its name."""
        table: dict[str, Any] = self.tasks if isinstance(definition, TaskDefinition) else self.recipes
        key = definition.name if isinstance(definition, TaskDefinition) else definition.key
        known = table.setdefault(key, definition)
        if known is not definition:
            raise InvalidInput(
                f"two definitions are named {key!r}: {known.func.__module__}.{known.func.__qualname__} and "
                f"{definition.func.__module__}.{definition.func.__qualname__}; give one of them name=..."
            )

    def latest(self, name: str) -> RecipeDefinition[Any] | None:
        """The recipe `name@version`, or the highest version of `name`."""
        if name in self.recipes:
            return self.recipes[name]
        versions = [r for r in self.recipes.values() if r.name == name]
        return max(versions, key=lambda r: _version_order(r.version), default=None)

    @classmethod
    def of(cls, definitions: Iterable[TaskDefinition[..., Any] | RecipeDefinition[Any]]) -> Definitions:
        """A set of definitions by hand."""
        found = cls()
        for definition in definitions:
            found.add(definition)
        return found


def load_modules(names: Sequence[str]) -> Definitions:
    """Import modules and collect every task and recipe that is then loaded, also in modules they import.

    Raises:
        ModuleNotLoadable: a module does not exist or raises; says which and how.
        InvalidInput: two different definitions have one name.
    """
    import_modules(names)
    found = Definitions.of(_declared_in(list(sys.modules.values())))
    if names and not found.tasks and not found.recipes:
        raise ModuleNotLoadable(
            f"{', '.join(names)}: no task and no recipe is declared there with @task or @recipe"
        )
    return found


def find_recipe(key: str, *, modules: Sequence[ModuleType] = ()) -> RecipeDefinition[Any] | None:
    """The recipe `name@version` that `modules` have, or else any module that is loaded; None if none has.

    Raises:
        InvalidInput: two different recipes have this name.
    """
    for searched in (list(modules), list(sys.modules.values())):
        named = (d for d in _declared_in(searched) if isinstance(d, RecipeDefinition) and d.key == key)
        found = Definitions.of(named).recipes.get(key)
        if found is not None:
            return found
    return None


def import_modules(names: Sequence[str]) -> list[ModuleType]:
    """Import modules by name. Raises `ModuleNotLoadable`; it says which does not exist or raises, and how."""
    modules = []
    for name in names:
        try:
            modules.append(importlib.import_module(name))
        except (Exception, SystemExit) as error:  # whatever a module does when it is imported
            raise ModuleNotLoadable(
                f"module {name!r} cannot be imported: {type(error).__name__}: {error}; "
                "name it as `python -m` would, from the folder it is found in"
            ) from error
    return modules


def _declared_in(modules: Iterable[ModuleType]) -> Iterator[TaskDefinition[..., Any] | RecipeDefinition[Any]]:
    for module in modules:
        for value in list(getattr(module, "__dict__", {}).values()):
            if isinstance(value, (TaskDefinition, RecipeDefinition)):
                yield value


def _first_parameter(func: Callable[..., Any]) -> tuple[str, ...]:
    for name in inspect.signature(func).parameters:
        return (name,)
    raise InvalidInput(f"recipe {func.__name__} takes no parameter; the first one is the Run")


def _version_order(version: str) -> tuple[tuple[int, int, str], ...]:
    return tuple((0, int(p), "") if p.isdigit() else (1, 0, p) for p in version.replace("-", ".").split("."))
