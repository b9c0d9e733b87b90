"""What application code talks to."""

from __future__ import annotations

import builtins
import os
from collections.abc import Iterable
from datetime import datetime
from types import TracebackType
from typing import Any, Self

from tenure.client.explain import Explanation
from tenure.client.handle import Handle
from tenure.client.listing import Page, Selection, read_page
from tenure.client.replaying import replay_stored
from tenure.client.starting import DEFAULT, Input, Options, Starter
from tenure.engine.definitions import RecipeDefinition
from tenure.engine.ending import Replayed
from tenure.engine.replay import Observer
from tenure.model.allocation import Allocation
from tenure.model.duration import Duration
from tenure.model.names import check_execution_id, check_instance_id
from tenure.model.needs import Needs
from tenure.model.status import ExecutionStatus
from tenure.settings import Settings
from tenure.store.answers import CancelAnswer
from tenure.store.stored import StoredExecution
from tenure.wiring import Store, open_store


class Client:
    """Starts executions for one instance and answers questions about them.

    Args:
        url: `redis://`, `rediss://`, `unix://` or `sentinel://host[:port],.../service`; by default
            `TENURE_REDIS_URL`, or else the embedded server with its data in `.tenure/`.
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
        key: str | None = None,
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
            key: any text, up to 256 characters, instead of an id: a message's or request's own identity. The
                id is made from it, so that the same key of the same instance is the same execution.
            needs: explicit requirements of this execution, which win over all declarations.
            priority: 0 (last) to 9 (first).
            correlation_id: to find related executions by; the id by default.
            delay, at: start it later, after a while or at an aware datetime, by the store's clock.
            deadline: how long it may take from now on; after that it fails.

        Raises:
            InvalidInput: the input does not fit the recipe, or is not plain data; nothing was stored.
            ExecutionExists: the id or key is taken by another recipe or input; nothing was changed.
        """
        options = Options(
            needs=needs,
            priority=priority,
            correlation_id=correlation_id,
            delay=delay,
            at=at,
            deadline=deadline,
        )
        starter = Starter(self._store, self.instance, recipe, options)
        execution = starter.start(Input(*args, id=id, key=key, **kwargs))
        return Handle(self._store, self.instance, execution, recipe)

    def start_many(
        self,
        recipe: RecipeDefinition[Any],
        inputs: Iterable[Any],
        /,
        *,
        needs: Needs | None = None,
        priority: int = DEFAULT,
        correlation_id: str | None = None,
        delay: Duration | None = None,
        at: datetime | None = None,
        deadline: Duration | None = None,
    ) -> builtins.list[Handle]:
        """Start one execution per input in few round trips, and return their handles in order.

        Each starts for itself, so some may run before the last is stored. Give ids or keys where the call may
        be repeated: what was started by a call that failed half-way is then not started twice.

        Args:
            inputs: each is the recipe's one argument, or an `Input` with several, or with an id or a key.
            needs, priority, correlation_id, delay, at, deadline: as for `start`, the same for all.

        Raises:
            InvalidInput: an input does not fit; the message says which, and nothing of the call was stored.
            ExecutionExists: ids or keys are taken, the message says which; all others were started.
        """
        options = Options(
            needs=needs,
            priority=priority,
            correlation_id=correlation_id,
            delay=delay,
            at=at,
            deadline=deadline,
        )
        starter = Starter(self._store, self.instance, recipe, options)
        ids = starter.start_many(inputs)
        return [Handle(self._store, self.instance, execution, recipe) for execution in ids]

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

    def list(
        self,
        *,
        status: ExecutionStatus | str | None = None,
        compatible_with: Allocation | None = None,
        include_unresolved: bool = False,
        limit: int = 100,
    ) -> builtins.list[StoredExecution]:
        """The newest executions of this instance, at most `limit`, of those asked for.

        Args:
            status: only those of this status.
            compatible_with: only those of which a slot with this allocation could take something now,
                whatever else of them runs. A route that waits for a time, a signal or a child is nothing to
                take, what needs nothing fits anything, and what cannot be read fits nothing.
            include_unresolved: also those of which a recipe waits whose demand was never published.

        Raises:
            InvalidInput: no status; no allocation, or one without a fact; `include_unresolved` without
                `compatible_with`; or a limit that is no whole number from 1 on.
        """
        page = self.page(
            status=status, compatible_with=compatible_with, include_unresolved=include_unresolved, limit=limit
        )
        return builtins.list(page.executions)

    def page(
        self,
        *,
        status: ExecutionStatus | str | None = None,
        compatible_with: Allocation | None = None,
        include_unresolved: bool = False,
        limit: int = 100,
        after: str | None = None,
    ) -> Page:
        """As `list`, one page at a time: the executions, and as `next` what to give as `after` for more.

        Pages neither skip nor repeat an execution, whatever is created, ended or deleted in between. What is
        created meanwhile comes before the first page, and is not shown. `tenure.environment_of` says of each
        what it waits for.

        Raises:
            InvalidInput: as `list`, or `after` is none that a page has given.
        """
        selection = Selection.of(
            status=status, compatible_with=compatible_with, include_unresolved=include_unresolved
        )
        return read_page(self._store, self.instance, selection, after=after, limit=limit)

    def explain(self, id: str) -> Explanation:  # noqa: A002  # the field's word
        """Why an execution is not moving. Raises `ExecutionNotFound`."""
        return self.get(id).explain()

    def replay(
        self,
        id: str,  # noqa: A002  # the field's word
        observer: Observer | None = None,
        *,
        recipe: RecipeDefinition[Any] | None = None,
    ) -> Replayed:
        """Run an execution's recipe here over what is recorded, read-only (G13).

        No task runs, nothing is written and nothing is waited for; the recipe's own code does run. It ends at
        the recorded end, which it must come to in the same way, or raises where the record has no more.

        Args:
            observer: called with each call that is answered from the record, in order. What it raises ends
                the replay. A plain function: what it returns is not awaited.
            recipe: the code to replay with; by default the recipe that the execution is pinned to, which must
                be imported here.

        Raises:
            ReplayCacheMiss: the replay came to what has no result; where an execution that runs stands.
            NonDeterministicRecipe: the recipe asks for something else, or ends otherwise, than is recorded.
            ExecutionNotFound: no execution of this id belongs to the instance.
            UnknownRecipe: its recipe is not loaded here, or it has none.
            InvalidInput: the observer cannot be called, or is a coroutine function.
            Malformed: what is stored cannot be read.
            Exception: what the recipe's own code raises, of an execution that has not ended.
        """
        return replay_stored(self._store, self.instance, id, observer, recipe)

    def close(self) -> None:
        """Close the connections; an embedded server stops with its last user."""
        self._store.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()
