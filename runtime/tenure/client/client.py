"""What application code talks to."""

from __future__ import annotations

import os
import uuid
from collections.abc import Iterator
from datetime import datetime, timedelta
from types import TracebackType
from typing import Any, Self

from tenure.client.explain import Explanation
from tenure.client.handle import Handle
from tenure.engine.definitions import RecipeDefinition
from tenure.engine.placement import Code
from tenure.errors import ExecutionExists, InvalidInput, UnknownRecipe
from tenure.model.data import encode, input_hash
from tenure.model.duration import Duration, parse_duration
from tenure.model.names import check_execution_id, check_instance_id
from tenure.model.needs import Needs, overlay
from tenure.model.status import ExecutionStatus
from tenure.settings import Settings
from tenure.store.answers import CancelAnswer, StartAnswer
from tenure.store.executions import NewExecution, StoredExecution
from tenure.wiring import Store, open_store

LOWEST, DEFAULT, HIGHEST = 0, 5, 9


class Client:
    """Starts executions for one instance and answers questions about them.

    Args:
        url: `redis://`, `rediss://` or `unix://`; by default `TENURE_REDIS_URL`, or else the embedded server
            with its data in `.tenure/`.
        instance: the owner of what is started here; another instance's executions are not seen.
        namespace: the set of keys and queues; workers and schedulers must be given the same one.
            By default `TENURE_NAMESPACE`, or else "tenure".
        store: one that is open already, instead of `url`; closing the client closes it.

    Raises:
        StoreUnreachable, UnsuitableServer: the server does not answer, or could lose data.
    """

    def __init__(
        self,
        url: str | None = None,
        *,
        instance: str = "default",
        namespace: str | None = None,
        settings: Settings | None = None,
        store: Store | None = None,
    ) -> None:
        self.instance = check_instance_id(instance)
        self._store = store or open_store(url, namespace=namespace, settings=settings, environment=os.environ)

    @classmethod
    def over(cls, store: Store, *, instance: str = "default") -> Self:
        """A client over a store that is open already; closing the client closes it."""
        return cls(store=store, instance=instance)

    @property
    def store(self) -> Store:
        """The open store, for tools that need more than the client offers."""
        return self._store

    def start(
        self,
        recipe: RecipeDefinition[Any],
        /,
        *args: Any,
        id: str | None = None,  # noqa: A002  # the field's word, and a keyword only
        needs: Needs | None = None,
        priority: int = DEFAULT,
        correlation_id: str | None = None,
        delay: Duration | None = None,
        at: datetime | None = None,
        deadline: Duration | None = None,
        **kwargs: Any,
    ) -> Handle:
        """Start an execution and return at once.

        Args:
            id: a name for it; starting again with the same id and input returns the same execution.
            needs: explicit requirements of this execution, which win over all declarations.
            priority: 0 (last) to 9 (first).
            correlation_id: to find related executions by; the id by default.
            delay, at: start it later, after a while or at an aware datetime, by the store's clock.
            deadline: how long it may take from now on; after that it fails.

        Raises:
            InvalidInput: the input does not fit the recipe, or is not plain data; nothing was stored.
            ExecutionExists: the id is taken by another recipe or input; nothing was changed.
        """
        if not isinstance(recipe, RecipeDefinition):
            raise UnknownRecipe(f"{recipe!r} is not a recipe; declare it with @recipe")
        if not LOWEST <= priority <= HIGHEST:
            raise InvalidInput(
                f"priority {priority}: give a whole number from {LOWEST} (last) to {HIGHEST} (first)"
            )
        execution = check_execution_id(id) if id is not None else uuid.uuid4().hex
        params = recipe.signature.dump_call(args, kwargs)
        limit = self._store.settings.payload
        job_needs = needs or Needs()
        new = {
            "instance": self.instance,
            "execution": execution,
            "nonce": uuid.uuid4().hex,
            "recipe": recipe.name,
            "version": recipe.version,
            "input_hash": input_hash(params),
            "params": encode(params, limit=limit, where=f"the input of {recipe.name}"),
            "correlation": correlation_id or execution,
            "band": HIGHEST - priority,
            "base_needs": recipe.needs.to_data(),
            "job_needs": job_needs.to_data(),
            "crash_limit": self._store.settings.crashes,
            "delay": None if delay is None else _ms(parse_duration(delay, name="delay")),
            "at": None if at is None else _epoch_ms(at),
            "deadline": None if deadline is None else _ms(parse_duration(deadline, name="deadline")),
        }
        self._start(new, overlay(recipe.needs, job_needs), Code(recipe=recipe.key))
        return Handle(self._store, self.instance, execution, recipe)

    def _start(self, new: dict[str, Any], demand: Needs, code: Code) -> None:
        placement = self._store.placement
        while True:
            view = placement.view()
            candidates = placement.candidates(view, demand, code)
            answer = self._store.executions.start(
                NewExecution(**new, needs=demand.to_data(), candidates=candidates, registry=view.revision)
            )
            match answer:
                case StartAnswer.CREATED | StartAnswer.EXISTS:
                    return
                case StartAnswer.STALE:
                    # A session came or went between placement and parking: look again.
                    continue
                case StartAnswer.CONFLICT:
                    raise ExecutionExists(
                        f"execution {new['execution']} exists already with another recipe or input; "
                        "nothing was changed. Use another id, or the same input"
                    )
                case StartAnswer.DELETED:
                    raise ExecutionExists(
                        f"execution {new['execution']} was deleted, and its id is not used again yet"
                    )

    def cancel(self, id: str, reason: str = "") -> CancelAnswer:  # noqa: A002  # the field's word
        """Ask that an execution ends as cancelled. The intent is durable, and the first reason stays.

        What nobody has begun never starts, and if nothing runs it has ended when this returns. What runs is
        asked to stop, and stopped after the grace period. A `once` task whose outcome nobody knows keeps the
        execution open until that is settled.

        Returns:
            cancelled, requested, unknown or already_terminal.

        Raises:
            ExecutionNotFound: no execution of this id belongs to the instance.
        """
        return self.get(id).cancel(reason)

    def get(self, id: str) -> Handle:  # noqa: A002  # the field's word
        """A handle on an execution of this instance, by id. It is looked up when it is asked something."""
        return Handle(self._store, self.instance, check_execution_id(id))

    def list(self, *, status: ExecutionStatus | str | None = None, limit: int = 100) -> list[StoredExecution]:
        """The newest executions of this instance, at most `limit`, of one status if given."""
        wanted = None if status is None else _status(status)
        found: list[StoredExecution] = []
        for page in _pages(self._store.executions.ids(self.instance), 50):
            for stored in self._store.executions.headers(self.instance, page):
                if wanted is None or stored.status is wanted:
                    found.append(stored)
                    if len(found) == limit:
                        return found
        return found

    def explain(self, id: str) -> Explanation:  # noqa: A002  # the field's word
        """Why an execution is not moving. Raises `ExecutionNotFound`."""
        return self.get(id).explain()

    def close(self) -> None:
        """Close the connections; an embedded server stops with its last user."""
        self._store.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


def _status(text: ExecutionStatus | str) -> ExecutionStatus:
    try:
        return ExecutionStatus(text)
    except ValueError:
        known = ", ".join(ExecutionStatus)
        raise InvalidInput(f"{text!r} is no status of an execution; there are {known}") from None


def _ms(duration: timedelta) -> int:
    return int(duration.total_seconds() * 1000)


def _epoch_ms(moment: datetime) -> int:
    if moment.tzinfo is None:
        raise InvalidInput(f"at={moment.isoformat()} has no time zone; give an aware datetime")
    return int(moment.timestamp() * 1000)


def _pages(ids: Iterator[str], size: int) -> Iterator[list[str]]:
    page: list[str] = []
    for execution in ids:
        page.append(execution)
        if len(page) == size:
            yield page
            page = []
    if page:
        yield page
