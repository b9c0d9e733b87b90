"""Reading the executions of an instance in pages, all of them or those that were asked for."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import islice
from typing import TYPE_CHECKING, Final, Self

from tenure.client.environment import environment_of
from tenure.errors import InvalidInput
from tenure.model.allocation import Allocation
from tenure.model.needs import Needs
from tenure.model.shown import shown
from tenure.model.status import ExecutionStatus
from tenure.store.listing import Position
from tenure.store.stored import StoredExecution

if TYPE_CHECKING:
    from tenure.wiring import Store

#: Executions that are read at a time.
_BATCH: Final = 50
#: Of all facts of an allocation the one that is for diagnosis, and meets no need.
_PROVES_NOTHING: Final = "image.image_id"


@dataclass(frozen=True, slots=True)
class Page:
    """Some executions of an instance, the newest first, and where the next page begins.

    `next` is to be given as `after`; None if there are no others. It names the last execution that was looked
    at, whether or not it was taken, so that with a filter the next page may turn out to be empty.
    """

    executions: Sequence[StoredExecution]
    next: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Selection:
    """Which executions are asked for. Made by `of`, which checks it."""

    status: ExecutionStatus | None = None
    compatible_with: Allocation | None = None
    include_unresolved: bool = False

    @classmethod
    def of(
        cls,
        *,
        status: ExecutionStatus | str | None,
        compatible_with: Allocation | None,
        include_unresolved: bool,
    ) -> Self:
        """Raises `InvalidInput` for what selects nothing in particular, or is no status or allocation."""
        if include_unresolved and compatible_with is None:
            raise InvalidInput("include_unresolved widens compatible_with, which is not given")
        if compatible_with is not None:
            _check_allocation(compatible_with)
        return cls(
            status=None if status is None else _status(status),
            compatible_with=compatible_with,
            include_unresolved=include_unresolved,
        )

    def takes(self, stored: StoredExecution) -> bool:
        """Whether an execution is one of those asked for."""
        if self.status is not None and stored.status is not self.status:
            return False
        if self.compatible_with is None:
            return True
        environment = environment_of(stored)
        return environment.is_met_by(self.compatible_with, include_unresolved=self.include_unresolved)


def read_page(store: Store, instance: str, selection: Selection, *, after: str | None, limit: int) -> Page:
    """The next executions that were asked for, at most `limit` of them, looking at as many as that takes.

    Raises:
        InvalidInput: `after` is no cursor, or `limit` is no whole number from 1 on.
    """
    _check_limit(limit)
    last = None if after is None else Position.read(after)
    walk = store.listing.walk(instance, after=last)
    taken: list[StoredExecution] = []
    while len(taken) < limit and (batch := list(islice(walk, _BATCH))):
        read = {
            stored.id: stored for stored in store.executions.headers(instance, [p.execution for p in batch])
        }
        for position in batch:
            if len(taken) == limit:
                return Page(taken, str(last))
            last = position
            stored = read.get(position.execution)
            if stored is not None and selection.takes(stored):
                taken.append(stored)
    return Page(taken, str(last) if next(walk, None) else None)


def _check_limit(limit: object) -> None:
    # True is an int, and no number that anybody means.
    if not isinstance(limit, int) or isinstance(limit, bool) or limit < 1:
        raise InvalidInput(f"limit: {shown(limit)} is no number of executions; give a whole one, 1 or more")


def _check_allocation(given: object) -> None:
    match given:
        case Allocation():
            facts = given.texts().keys()
        case str():
            raise InvalidInput(
                f"compatible_with: {shown(given)} is a text; give Allocation.parse({shown(given)})"
            )
        case Needs():
            raise InvalidInput(
                "compatible_with: these are needs, which a task has; give what a slot has, "
                "for example Allocation(memory='16Gi')"
            )
        case _:
            raise InvalidInput(
                f"compatible_with: {shown(given)} is no allocation; give one, "
                "for example Allocation(memory='16Gi')"
            )
    if facts - {_PROVES_NOTHING}:
        return
    needed = "compatible_with: at least one fact of the allocation is needed, for example 'memory=16Gi'"
    proves_nothing = f"; {_PROVES_NOTHING} is for diagnosis, and proves nothing" if facts else ""
    raise InvalidInput(f"{needed}, since an unknown fact meets no need{proves_nothing}")


def _status(text: ExecutionStatus | str) -> ExecutionStatus:
    try:
        return ExecutionStatus(text)
    except ValueError:
        known = ", ".join(ExecutionStatus)
        raise InvalidInput(f"{text!r} is no status of an execution; there are {known}") from None
