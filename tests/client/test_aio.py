"""The client for asyncio: twins of every method, waiting without threads, and nothing left behind."""

from __future__ import annotations

import asyncio
import contextvars
import inspect
import threading
import time
from collections.abc import Callable, Coroutine
from typing import Any

import pytest

from tenure import (
    AsyncClient,
    AsyncHandle,
    Client,
    ExecutionFailed,
    ExecutionNotFound,
    Handle,
    Input,
    Run,
    Settings,
    recipe,
)
from tenure.embedded import EmbeddedServer
from tenure.engine.definitions import Definitions
from tenure.engine.driver import Driver
from tenure.errors import InvalidInput, StoreUnreachable
from tenure.wiring import Store, open_store
from tests.harness import working_slot
from tests.proxy import LossyProxy
from tests.waiting import wait_until

#: Of the synchronous ones, what has no twin: a way into the open store, for tools that are synchronous too.
WITHOUT = {"store"}
#: What asks nothing, and so is the same for both.
PLAIN = {"get"}


@recipe
def double(run: Run, number: int) -> int:
    return 2 * number


@recipe
def fail(run: Run) -> None:
    raise ValueError("it broke")


@pytest.fixture
def slot(store: Store) -> Driver:
    return working_slot(store, Definitions.of([double, fail]))


@pytest.fixture
def shared(url: str, namespace: str) -> Callable[[], AsyncClient]:
    """Clients of the test's namespace."""
    return lambda: AsyncClient(url, namespace=namespace)


def public(kind: type) -> dict[str, Any]:
    return {name: member for name, member in vars(kind).items() if not name.startswith("_")}


def parameters(function: Callable[..., Any]) -> list[inspect.Parameter]:
    return list(inspect.signature(function).parameters.values())


@pytest.mark.parametrize(("kind", "twin"), [(Client, AsyncClient), (Handle, AsyncHandle)])
def test_every_method_has_a_twin_that_takes_the_same(kind: type, twin: type) -> None:
    """Whoever adds a method to the one adds it to the other, in `tenure.client.aio`."""
    methods = public(kind)
    assert public(twin).keys() == methods.keys() - WITHOUT
    for name in public(twin):
        assert parameters(getattr(twin, name)) == parameters(methods[name]), name
        method = getattr(twin, name)
        is_awaited = inspect.iscoroutinefunction(method) or inspect.isasyncgenfunction(method)
        assert is_awaited == (name not in PLAIN), name


def test_the_twins_are_made_of_the_same() -> None:
    assert parameters(AsyncClient) == parameters(Client)


def test_one_waits_for_results_while_others_work(shared: Callable[[], AsyncClient], slot: Driver) -> None:
    async def go() -> None:
        async with shared() as client:
            one = await client.start(double, 4, key="four")
            many = await client.start_many(double, (n for n in range(100)))
            # Far more than there are threads, and all of them wait before anything is done.
            waiting = [asyncio.create_task(handle.result(30)) for handle in [one, *many]]
            await asyncio.sleep(0)
            await asyncio.to_thread(slot.drain)
            assert await asyncio.gather(*waiting) == [8, *(2 * n for n in range(100))]
            assert len(client_threads()) <= 16

    asyncio.run(go())


def test_a_thousand_may_wait_and_others_still_get_their_turn(
    shared: Callable[[], AsyncClient], slot: Driver
) -> None:
    async def go() -> None:
        async with shared() as client:
            handles = await client.start_many(double, range(1000))
            waiting = [asyncio.create_task(handle.wait()) for handle in handles]
            await until(lambda: len(client._bridge.watch._bells) == 1000)
            assert await (await client.start(double, 1)).status() == "pending"
            for task in waiting:
                task.cancel()
            await asyncio.gather(*waiting, return_exceptions=True)
            reader = client._bridge.watch._reader
            assert reader is not None
            await until(reader.done)
        assert client_threads() == []

    asyncio.run(go())


def test_news_wakes_who_waits_at_once(shared: Callable[[], AsyncClient], slot: Driver) -> None:
    async def go() -> float:
        async with shared() as client:
            handle = await client.start(double, 1)
            waiting = asyncio.create_task(handle.wait())
            # It has looked, and waits for news now.
            await until(lambda: client._bridge.watch._bells)
            await asyncio.to_thread(slot.drain)
            ended = time.monotonic()
            assert await waiting == "completed"
            return time.monotonic() - ended

    assert asyncio.run(go()) < 2.5  # far below the 5 s after which it would look anyway


def test_following_yields_every_event_once_and_ends(shared: Callable[[], AsyncClient], slot: Driver) -> None:
    async def go() -> None:
        async with shared() as client:
            handle = await client.start(double, 1)
            seen: list[int] = []

            async def follow() -> None:
                async for event in handle.events(follow=True):
                    seen.append(event.seq)  # noqa: PERF401  # looked at meanwhile

            following = asyncio.create_task(follow())
            await until(lambda: seen)
            await asyncio.to_thread(slot.drain)
            await asyncio.wait_for(following, 30)
            assert seen == [event.seq async for event in handle.events()] == list(range(1, len(seen) + 1))
            assert [event.seq async for event in handle.events(after=2)] == seen[2:]

    asyncio.run(go())


def test_looking_at_an_execution(shared: Callable[[], AsyncClient], client: Client) -> None:
    async def go() -> None:
        async with shared() as other:
            handle = await other.start(double, 1, id="one")
            assert (await other.explain("one")).status == (await handle.explain()).status == "pending"
            assert await handle.snapshot() == client.get("one").snapshot()
            assert [one.id for one in await other.list(status="pending")] == ["one"]
            assert await other.cancel("one", "enough") == "cancelled"
            assert await handle.cancel() == "already_terminal"
            assert await other.get("one").status() == "cancelled"

    asyncio.run(go())


def test_errors_are_those_of_the_client(shared: Callable[[], AsyncClient], slot: Driver) -> None:
    async def go() -> None:
        async with shared() as client:
            failing = await client.start(fail)
            await asyncio.to_thread(slot.drain)
            with pytest.raises(ExecutionFailed, match=failing.id):
                await failing.result()
            with pytest.raises(ExecutionNotFound, match="nobody"):
                await client.get("nobody").wait()
            with pytest.raises(InvalidInput, match="execution id"):
                client.get("a/b")
            with pytest.raises(InvalidInput, match=r"inputs\[1\]"):
                await client.start_many(double, [1, Input()])
            waiting = await client.start(double, 1)
            with pytest.raises(TimeoutError, match=waiting.id):
                await waiting.result(timeout=0.1)

    asyncio.run(go())
    with pytest.raises(InvalidInput, match="instance id"):
        AsyncClient(instance="a/b")


def test_a_cancelled_wait_leaves_no_thread(shared: Callable[[], AsyncClient]) -> None:
    async def go() -> None:
        async with shared() as client:
            handle = await client.start(double, 1)
            with pytest.raises(TimeoutError):
                await asyncio.wait_for(handle.wait(), 0.2)
            following = aiter(handle.events(follow=True))
            await anext(following)
            await following.aclose()  # type: ignore[attr-defined]  # it is a generator
            assert client._bridge.watch._bells == {}
        with pytest.raises(RuntimeError, match="closed"):
            await handle.status()

    began = time.monotonic()
    asyncio.run(go())
    assert client_threads() == []
    assert time.monotonic() - began < 10


def test_waiting_outlasts_an_outage(server: EmbeddedServer, namespace: str) -> None:
    settings = Settings.from_environment({"TENURE_RESEND": "20"})
    with LossyProxy(str(server.socket_path)) as proxy, open_store(server.url, namespace=namespace) as store:
        slot = working_slot(store, Definitions.of([double]))

        async def go() -> Any:
            async with AsyncClient(proxy.url, namespace=namespace, settings=settings) as client:
                handle = await client.start(double, 4)
                waiting = asyncio.create_task(handle.result(30))
                await until(lambda: client._bridge.watch._bells)
                with proxy.down():
                    await asyncio.to_thread(slot.drain)
                    await asyncio.sleep(0.5)  # the outage itself
                return await waiting

        assert asyncio.run(go()) == 8


def test_a_server_that_was_never_there_is_not_waited_for() -> None:
    async def go() -> None:
        async with AsyncClient("redis://127.0.0.1:1") as client:
            with pytest.raises(StoreUnreachable):
                await client.get("one").wait()

    asyncio.run(go())


def test_context_goes_along(shared: Callable[[], AsyncClient], slot: Driver) -> None:
    """What a caller has in context variables is there for codecs and log filters."""

    async def go() -> None:
        async with shared() as client:
            mine.set("here")
            assert await client._bridge.call(lambda _: mine.get()) == "here"

    mine: contextvars.ContextVar[str] = contextvars.ContextVar("mine")
    asyncio.run(go())


def client_threads() -> list[str]:
    return [thread.name for thread in threading.enumerate() if thread.name.startswith("tenure-client")]


def until(predicate: Callable[[], object]) -> Coroutine[Any, Any, None]:
    return asyncio.to_thread(wait_until, predicate, 30, "what the test waits for")
