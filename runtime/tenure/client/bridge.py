"""From asyncio to the synchronous client: its calls run in a few threads, and waiting takes none of them.

A thread cannot be interrupted, so none may wait for long: whoever waits for an execution does so in the event
loop, and one call at a time watches the shared stream on behalf of them all, for a moment each time.
"""

from __future__ import annotations

import asyncio
import contextvars
import threading
from collections.abc import AsyncIterator, Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager
from typing import Final, TypeVar

from tenure.client.client import Client
from tenure.client.handle import AWAY_SECONDS
from tenure.errors import StoreUnreachable

R = TypeVar("R")

_THREADS: Final = 16
#: The longest that a call watches the stream, and that closing has to wait for it.
_SLICE_SECONDS: Final = 1.0


class Bridge:
    """One client, opened by its first call, and the threads in which it is called, for one event loop."""

    def __init__(self, open_client: Callable[[], Client]) -> None:
        self._open_client = open_client
        self._opening = threading.Lock()
        self._client: Client | None = None
        self._threads = ThreadPoolExecutor(_THREADS, thread_name_prefix="tenure-client")
        self._is_closed = False
        self.watch = Watch(self)

    async def call(self, work: Callable[[Client], R]) -> R:
        """Run `work` in a thread. Cancelling this stops waiting for it, and not what it does."""
        if self._is_closed:
            raise RuntimeError("this client is closed")
        context = contextvars.copy_context()
        return await asyncio.get_running_loop().run_in_executor(
            self._threads, lambda: context.run(lambda: work(self._opened()))
        )

    def patience_seconds(self) -> float:
        """How long waiting may outlast an outage; a server that was never there is not waited for."""
        return 0.0 if self._client is None else self._client.store.settings.resend.total_seconds()

    async def close(self) -> None:
        """Let calls come to their end, and close what was opened."""
        self._is_closed = True
        await self.watch.close()
        await asyncio.to_thread(self._shut)

    def _opened(self) -> Client:
        with self._opening:
            if self._client is None:
                self._client = self._open_client()
            return self._client

    def _shut(self) -> None:
        self._threads.shutdown(cancel_futures=True)
        if self._client is not None:
            self._client.close()


class Watch:
    """Wakes the coroutines whose execution has news."""

    def __init__(self, bridge: Bridge) -> None:
        self._bridge = bridge
        self._bells: dict[tuple[str, str], set[asyncio.Event]] = {}
        self._reader: asyncio.Task[None] | None = None

    @asynccontextmanager
    async def on(self, instance: str, execution: str) -> AsyncIterator[asyncio.Event]:
        """An event that is set whenever there may be news of the execution.

        Clear it *before* looking at the execution: news that come after the look then set it again.
        """
        bell = asyncio.Event()
        member = (instance, execution)
        self._bells.setdefault(member, set()).add(bell)
        if self._reader is None or self._reader.done():
            self._reader = asyncio.create_task(self._read(), name="tenure-watch")
        try:
            yield bell
        finally:
            self._bells[member].discard(bell)
            if not self._bells[member]:
                del self._bells[member]

    async def close(self) -> None:
        """End the reading. A call that watches just now comes back by itself."""
        if self._reader is not None:
            self._reader.cancel()
            await asyncio.gather(self._reader, return_exceptions=True)

    async def _read(self) -> None:
        """Read the stream for as long as somebody waits."""
        cursor: bytes | None = None
        while self._bells:
            try:
                if cursor is None:
                    cursor = await self._bridge.call(lambda client: client.store.events.cursor())
                    # What came before the cursor is seen by looking once more.
                    self._ring(list(self._bells))
                cursor, news = await self._bridge.call(_reading_from(cursor))
            except StoreUnreachable:  # those who wait find that out when they look
                cursor = None
                await asyncio.sleep(AWAY_SECONDS)
            else:
                self._ring(news)

    def _ring(self, members: Iterable[tuple[str, str]]) -> None:
        for member in members:
            for bell in self._bells.get(member, ()):
                bell.set()


def _reading_from(cursor: bytes) -> Callable[[Client], tuple[bytes, frozenset[tuple[str, str]]]]:
    return lambda client: client.store.events.news(cursor, seconds=_SLICE_SECONDS)
