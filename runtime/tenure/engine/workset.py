"""What one slot can run: recipes, and tasks each behind its guard."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Self

from tenure.engine.admission import Admission, GuardedTask
from tenure.engine.definitions import Definitions, RecipeDefinition, TaskDefinition
from tenure.errors import UnguardedTask


class Workset:
    """The definitions of one slot, by name. Made by `of`, or by hand of tasks that were wrapped one by one.

    Raises:
        UnguardedTask: a task is not wrapped. What is staged for it would be enforced by nobody.
    """

    def __init__(
        self,
        *,
        recipes: Mapping[str, RecipeDefinition[Any]],
        tasks: Mapping[str, GuardedTask | TaskDefinition[..., Any]],
    ) -> None:
        self.recipes = dict(recipes)
        self._tasks: dict[str, GuardedTask] = {}
        for name, task in tasks.items():
            if not isinstance(task, GuardedTask):
                raise UnguardedTask(
                    f"task {name} is not guarded, so the needs that recipes stage for it would not be "
                    "enforced; wrap every task with the admission's wrap_task"
                )
            self._tasks[name] = task

    @classmethod
    def of(cls, definitions: Definitions, admission: Admission) -> Self:
        """All of `definitions`, guarded by `admission`."""
        return cls(
            recipes=definitions.recipes,
            tasks={name: admission.wrap_task(task) for name, task in definitions.tasks.items()},
        )

    def has_task(self, name: str) -> bool:
        """Whether the code of this task is loaded."""
        return name in self._tasks

    def task(self, name: str) -> TaskDefinition[..., Any]:
        """A task that is loaded."""
        return self._tasks[name].definition

    def guarded(self, task: TaskDefinition[..., Any]) -> GuardedTask | None:
        """The guard of this very task; None if it is not loaded, or another one has its name."""
        found = self._tasks.get(task.name)
        return found if found is not None and found.definition is task else None
