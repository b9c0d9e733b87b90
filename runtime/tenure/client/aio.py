"""The client for asyncio. Each method is the twin of one of `Client` or `Handle`, which say what it does."""

from __future__ import annotations

import asyncio
import builtins
import time
from collections.abc import AsyncIterator, Callable, Iterable
from contextlib import suppress
from datetime import datetime
from types import TracebackType
from typing import Any, Final, Self, TypeVar

from tenure.client.bridge import Bridge
from tenure.client.client import Client
from tenure.client.explain import Explanation
from tenure.client.handle import AWAY_SECONDS, Handle
from tenure.client.listing import Page
from tenure.client.starting import DEFAULT
from tenure.engine.definitions import RecipeDefinition
from tenure.engine.ending import Replayed
from tenure.engine.replay import Observer
from tenure.errors import StoreUnreachable
from tenure.model.allocation import Allocation
from tenure.model.duration import Duration
from tenure.model.names import check_execution_id, check_instance_id
from tenure.model.needs import Needs
from tenure.model.status import ExecutionStatus, is_terminal
from tenure.settings import Settings
from tenure.store.answers import CancelAnswer
from tenure.store.events import Event
from tenure.store.stored import StoredExecution
from tenure.wiring import Store

R = TypeVar("R")

#: Whoever waits looks again after this long, come news or not.
_LOOK_SECONDS: Final = 5.0


class AsyncClient:
    """`Client` for asyncio: takes the same arguments, and connects at its first call.

        async with AsyncClient() as client:
            handle = await client.start(publish, "Dune")
            print(await handle.result())

    A call that is cancelled may take effect all the same, like one whose reply was lost; an id or a key makes
    a start that may be repeated safe. Thousands may wait at once: they share one connection.
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
        self._bridge = Bridge(
            lambda: Client(url, instance=instance, namespace=namespace, settings=settings, store=store)
        )

    async def start(
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
    ) -> AsyncHandle:
        """Start an execution; see `Client.start`."""
        handle = await self._bridge.call(
            lambda client: client.start(
                recipe,
                *args,
                id=id,
                key=key,
                needs=needs,
                priority=priority,
                correlation_id=correlation_id,
                delay=delay,
                at=at,
                deadline=deadline,
                **kwargs,
            )
        )
        return AsyncHandle(self._bridge, self.instance, handle.id, recipe)

    async def start_many(
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
    ) -> builtins.list[AsyncHandle]:
        """Start one execution per input; see `Client.start_many`."""
        given = builtins.list(inputs)  # here: what makes them need not bear another thread
        handles = await self._bridge.call(
            lambda client: client.start_many(
                recipe,
                given,
                needs=needs,
                priority=priority,
                correlation_id=correlation_id,
                delay=delay,
                at=at,
                deadline=deadline,
            )
        )
        return [AsyncHandle(self._bridge, self.instance, handle.id, recipe) for handle in handles]

    async def cancel(self, id: str, reason: str = "") -> CancelAnswer:  # noqa: A002  # the field's word
        """Ask that an execution ends as cancelled; see `Client.cancel`."""
        return await self.get(id).cancel(reason)

    def get(self, id: str) -> AsyncHandle:  # noqa: A002  # the field's word
        """A handle on an execution of this instance, by id. Nothing is asked yet, so nothing is awaited."""
        return AsyncHandle(self._bridge, self.instance, check_execution_id(id))

    async def list(
        self,
        *,
        status: ExecutionStatus | str | None = None,
        compatible_with: Allocation | None = None,
        include_unresolved: bool = False,
        limit: int = 100,
    ) -> builtins.list[StoredExecution]:
        """The newest executions of this instance; see `Client.list`."""
        return await self._bridge.call(
            lambda client: client.list(
                status=status,
                compatible_with=compatible_with,
                include_unresolved=include_unresolved,
                limit=limit,
            )
        )

    async def page(
        self,
        *,
        status: ExecutionStatus | str | None = None,
        compatible_with: Allocation | None = None,
        include_unresolved: bool = False,
        limit: int = 100,
        after: str | None = None,
    ) -> Page:
        """Its executions one page at a time; see `Client.page`."""
        return await self._bridge.call(
            lambda client: client.page(
                status=status,
                compatible_with=compatible_with,
                include_unresolved=include_unresolved,
                limit=limit,
                after=after,
            )
        )

    async def explain(self, id: str) -> Explanation:  # noqa: A002  # the field's word
        """Why an execution is not moving; see `Client.explain`."""
        return await self.get(id).explain()

    async def replay(
        self,
        id: str,  # noqa: A002  # the field's word
        observer: Observer | None = None,
        *,
        recipe: RecipeDefinition[Any] | None = None,
    ) -> Replayed:
        """Run an execution's recipe over what is recorded, in another thread, which is also the observer's.

        See `Client.replay`.
        """
        return await self._bridge.call(lambda client: client.replay(id, observer, recipe=recipe))

    async def close(self) -> None:
        """Let the calls that run come to their end, and close the connections."""
        await self._bridge.close()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()


class AsyncHandle:
    """`Handle` for asyncio."""

    def __init__(
        self, bridge: Bridge, instance: str, execution: str, definition: RecipeDefinition[Any] | None = None
    ) -> None:
        self._bridge = bridge
        self._instance = instance
        self._definition = definition
        self.id = execution

    def __repr__(self) -> str:
        return f"<execution {self.id}>"

    async def snapshot(self) -> StoredExecution:
        """Everything stored about it but its payloads; see `Handle.snapshot`."""
        return await self._call(Handle.snapshot)

    async def status(self) -> ExecutionStatus:
        """pending, running, completed, failed or cancelled."""
        return await self._call(Handle.status)

    async def wait(self, timeout: float | None = None) -> ExecutionStatus:  # noqa: ASYNC109  # that of `Handle.wait`
        """Wait until it has ended, however it ends; see `Handle.wait`. Takes no thread while it waits."""
        deadline = None if timeout is None else time.monotonic() + timeout
        status = await self._patiently(Handle.status, deadline)
        if is_terminal(status):
            return status
        async with self._bridge.watch.on(self._instance, self.id) as bell:
            while True:
                bell.clear()
                status = await self._patiently(Handle.status, deadline)
                if is_terminal(status):
                    return status
                left = _LOOK_SECONDS if deadline is None else deadline - time.monotonic()
                if left <= 0:
                    raise TimeoutError(f"execution {self.id} is still {status} after {timeout:g} s")
                await _ring_of(bell, min(left, _LOOK_SECONDS))

    async def result(self, timeout: float | None = None) -> Any:  # noqa: ASYNC109  # that of `Handle.result`
        """Wait for it and return its result; see `Handle.result`."""
        await self.wait(timeout)
        return await self._call(Handle.result)

    async def events(self, *, follow: bool = False, after: int = 0) -> AsyncIterator[Event]:
        """Its events in order, each once; with `follow`, until it has ended."""
        if not follow:
            for event in await self._call(lambda handle: list(handle.events(after=after))):
                yield event
            return
        async with self._bridge.watch.on(self._instance, self.id) as bell:
            while True:
                bell.clear()
                status, events = await self._patiently(_look_after(after), None)
                for event in events:
                    after = event.seq
                    yield event
                if is_terminal(status):
                    return
                await _ring_of(bell, _LOOK_SECONDS)

    async def cancel(self, reason: str = "") -> CancelAnswer:
        """Ask that it ends as cancelled; see `Client.cancel`."""
        return await self._call(lambda handle: handle.cancel(reason))

    async def explain(self) -> Explanation:
        """Why it is not moving, since when, and what would change it."""
        return await self._call(Handle.explain)

    async def _call(self, work: Callable[[Handle], R]) -> R:
        return await self._bridge.call(
            lambda client: work(Handle(client.store, self._instance, self.id, self._definition))
        )

    async def _patiently(self, read: Callable[[Handle], R], deadline: float | None) -> R:
        """Read again while the server is away, as `Handle` does."""
        began = time.monotonic()
        while True:
            try:
                return await self._call(read)
            except StoreUnreachable:
                give_up = began + self._bridge.patience_seconds()
                if time.monotonic() >= min(give_up, deadline or give_up):
                    raise
                await asyncio.sleep(AWAY_SECONDS)


def _look_after(seq: int) -> Callable[[Handle], tuple[ExecutionStatus, list[Event]]]:
    """The status first: if it is terminal, the events that follow are all there will be."""
    return lambda handle: (handle.status(), list(handle.events(after=seq)))


async def _ring_of(bell: asyncio.Event, seconds: float) -> None:
    with suppress(TimeoutError):
        async with asyncio.timeout(seconds):
            await bell.wait()
