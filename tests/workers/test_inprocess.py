"""A worker inside the process that uses it, whose tasks run in the thread that calls."""

from __future__ import annotations

import asyncio
import os
import signal
import threading
from collections.abc import Iterator
from datetime import timedelta
from functools import partial
from typing import Any
from urllib.parse import unquote

import pytest
import redis

from tenure import Allocation, Client, ExecutionNotFound, Needs, Run, TaskContext, recipe, task
from tenure.engine.definitions import Definitions, RecipeDefinition
from tenure.engine.handoff import HandoffEvent
from tenure.engine.signals import Stop
from tenure.errors import InvalidInput, ModuleNotLoadable, StoreUnreachable, Unconfirmed
from tenure.model.status import SessionState
from tenure.settings import Settings
from tenure.wiring import open_store
from tenure_workers import InProcessWorker
from tests.engine.site import INSTANCE, Site
from tests.invariants import broken
from tests.proxy import LossyProxy
from tests.waiting import wait_until

SMALL, BIG = Allocation(memory="1Gi"), Allocation(memory="8Gi")
NEEDS = Needs(memory="4Gi")
LIMIT = 20.0


@pytest.fixture
def site(url: str, redis_client: redis.Redis, namespace: str) -> Iterator[Site]:
    """A namespace whose sessions are renewed often."""
    settings = Settings(renewal=timedelta(seconds=0.05))
    with open_store(url, namespace=namespace, settings=settings, test_clock=True) as store:
        yield Site(store, redis_client)


class App:
    """Some application code that notes what has run, and what a test wants to happen within a task."""

    def __init__(self) -> None:
        self.ran: list[str] = []
        self.threads: set[int] = set()
        self.during: Any = lambda _: None

        @task
        def light(name: str, ctx: TaskContext) -> str:
            self.threads.add(threading.get_ident())
            self.ran.append(name)
            self.during(ctx)
            return name

        @task(needs=NEEDS)
        def heavy(name: str) -> str:
            self.ran.append(name)
            return name

        @recipe
        def chain(run: Run, name: str = "") -> list[str]:
            return [run.call(light, f"{name}{n}") for n in (1, 2, 3)]

        @recipe
        def fan(run: Run) -> list[str]:
            return run.map(light, ["a", "b"])

        @recipe
        def mixed(run: Run) -> list[str]:
            return [run.call(light, "before"), run.call(heavy, "heavy"), run.call(light, "after")]

        self.chain: RecipeDefinition[list[str]] = chain
        self.fan: RecipeDefinition[list[str]] = fan
        self.mixed: RecipeDefinition[list[str]] = mixed
        self.definitions = Definitions.of([light, heavy, chain, fan, mixed])

    def once(self, act: Any) -> None:
        """Let this happen within the first task that runs."""

        def during(ctx: TaskContext) -> None:
            self.during = lambda _: None
            act(ctx)

        self.during = during


@pytest.fixture
def app() -> App:
    return App()


def worker_of(site: Site, app: App, **options: Any) -> InProcessWorker:
    return InProcessWorker(site.client, app.definitions, **{"allocation": SMALL, **options})


def session_of(site: Site, worker: InProcessWorker) -> tuple[SessionState, int] | None:
    """State and generation of its session, as `tenure sessions` lists it."""
    found = [one for one in site.store.sessions.list() if one.name == worker.name]
    return (found[0].state, found[0].generation) if found else None


def until_registered(site: Site, worker: InProcessWorker, generation: int) -> None:
    wait_until(
        lambda: session_of(site, worker) == (SessionState.READY, generation), LIMIT, "it is registered"
    )


def end_session(site: Site, worker: InProcessWorker) -> None:
    """What a scheduler does that has not heard of it for a lease."""
    site.store.sessions.retire(worker.name, 1, SessionState.GONE)


# -- working -------------------------------------------------------------------------------------------------


def test_it_works_until_nothing_waits_in_the_calling_thread(site: Site, app: App) -> None:
    with worker_of(site, app) as worker:
        chain, fan = site.run(app.chain), site.run(app.fan)
        worker.work()
        assert chain.result(1) == ["1", "2", "3"]
        assert fan.result(1) == ["a", "b"]
        worker.work()
    assert sorted(app.ran) == ["1", "2", "3", "a", "b"]
    assert app.threads == {threading.get_ident()}
    assert broken(site.store) == []


def test_its_session_is_an_ordinary_one(site: Site, app: App) -> None:
    """It is listed, work is placed on it, and goes elsewhere when it stops."""
    with worker_of(site, app, name="embedded", pool="app") as worker:
        (facts,) = site.store.sessions.list()
        assert (facts.name, facts.pool, facts.slots, facts.pid) == ("embedded", "app", 1, os.getpid())
        handle = site.run(app.chain)
        assert site.record(handle)["queue"] == facts.queue
        with pytest.raises(InvalidInput, match="already named 'embedded'"):
            worker_of(site, app, name="embedded")
    assert worker.stopped
    assert site.store.sessions.list() == []
    evicted = site.store.duties.evict(site.lead(), facts.queue, limit=10)
    assert evicted is not None
    assert evicted.routes == 1
    with worker_of(site, app):
        site.place_parked()
        assert site.record(handle)["where"] == "waiting"


def test_it_takes_code_by_the_name_of_its_module(site: Site) -> None:
    with pytest.raises(ModuleNotLoadable, match="no_such_module"):
        InProcessWorker(site.client, "no_such_module")


def test_named_work_is_done_where_it_waits_and_nothing_else_is(site: Site, app: App) -> None:
    with worker_of(site, app) as worker:
        other, handle = site.run(app.chain, "x"), site.run(app.chain)
        assert worker.run(handle.id) == "completed"
        assert worker.run(handle.id) == "completed"
        assert app.ran == ["1", "2", "3"]
        assert other.status() == "pending"
        with pytest.raises(ExecutionNotFound):
            worker.run("nobody")


def test_named_work_is_that_of_the_clients_instance(site: Site, app: App) -> None:
    theirs = Client(store=site.store, instance="other").start(app.chain, id="theirs")
    with worker_of(site, app) as worker, pytest.raises(ExecutionNotFound):
        worker.run(theirs.id)
    assert app.ran == []


def test_what_it_lacks_something_for_is_handed_off_and_told(site: Site, app: App) -> None:
    """G11: parked for another slot, which goes on with it by name though nobody has placed it."""
    told: list[HandoffEvent] = []
    with worker_of(site, app, on_handoff=told.append) as small:
        handle = site.run(app.mixed)
        assert small.run(handle.id) == "running"
        assert [(event.capability, event.published) for event in told] == [("1:heavy", True)]
        assert handle.explain().reason == "awaiting_environment"
        with worker_of(site, app, allocation=BIG) as big:
            assert big.run(handle.id) == "completed"
    assert app.ran == ["before", "heavy", "after"]
    assert len(told) == 1


def test_renewals_keep_the_lease_of_a_long_task(site: Site, app: App) -> None:
    """G2: nobody takes it over, though by the store's clock it takes longer than a lease."""
    lease_ms = int(site.store.settings.lease.total_seconds() * 1000)
    leased = site.store.keys("leased")

    def outlast(ctx: TaskContext) -> None:
        route = f"{INSTANCE}/{ctx.execution_id}/0:light"
        for _ in range(3):
            before = site.redis.zscore(leased, route)
            assert isinstance(before, float)
            site.pass_ms(lease_ms * 2 // 3)
            until = before + lease_ms / 2
            wait_until(partial(_ends_after, site, leased, route, until), LIMIT, "it is renewed")
        assert site.store.duties.take_over(site.lead(), route, cause="lapsed") == "live"

    app.once(outlast)
    with worker_of(site, app) as worker:
        handle = site.run(app.chain)
        worker.work()
    assert handle.result(1) == ["1", "2", "3"]
    assert app.ran == ["1", "2", "3"]
    assert handle.snapshot().attempts == []


def _ends_after(site: Site, leased: str, route: str, time: float) -> bool:
    ends: Any = site.redis.zscore(leased, route)
    return ends is not None and ends > time


def test_a_cancelled_task_is_told(site: Site, app: App) -> None:
    """G14: it is asked through its context; a task that looks ends as cancelled."""

    asked: list[str] = []

    def listen(ctx: TaskContext) -> None:
        site.client.cancel(ctx.execution_id, "no more")
        wait_until(lambda: ctx.cancelled, LIMIT, "the task is asked to stop")
        asked.append(ctx.execution_id)
        ctx.check_cancelled()

    app.once(listen)
    with worker_of(site, app) as worker:
        handle = site.run(app.chain)
        worker.work()
    assert asked == [handle.id]
    assert handle.status() == "cancelled"
    assert app.ran == ["1"]


def test_between_calls_it_attracts_no_work(site: Site, app: App) -> None:
    """Whoever has an idle slot takes what others start."""
    with worker_of(site, app) as worker:
        site.run(app.chain)
        worker.work()
        (queue,) = site.store.sessions.view().queues
        assert (queue.sessions, queue.idle) == (1, 0)
        handle = site.run(app.chain)
        worker.work()
        assert handle.status() == "completed"


# -- stopping ------------------------------------------------------------------------------------------------


def test_a_slot_that_hands_off_holds_nothing_and_may_stop_in_on_handoff(site: Site, app: App) -> None:
    """G11, seed 000: an incompatible worker stops after its handoff, and starts nothing more."""
    told: list[HandoffEvent] = []

    def leave(event: HandoffEvent) -> None:
        told.append(event)
        worker.stop()

    worker = worker_of(site, app, on_handoff=leave)
    first, second = site.run(app.mixed), site.run(app.chain)
    worker.work()

    assert len(told) == 1
    assert app.ran == ["before"]
    assert site.store.sessions.list() == []
    # The step that hands off grants nothing.
    assert "replay" not in site.kinds(second)
    assert (site.record(second)["where"], site.record(second)["attempt"]) == ("waiting", 1)
    assert broken(site.store) == []
    with pytest.raises(InvalidInput, match="has stopped"):
        worker.work()

    with worker_of(site, app, allocation=BIG) as other:
        assert other.run(first.id) == "completed"
        assert other.run(second.id) == "completed"
    assert first.result(1) == ["before", "heavy", "after"]
    assert second.result(1) == ["1", "2", "3"]
    assert sorted(app.ran) == ["1", "2", "3", "after", "before", "heavy"]


def test_a_stop_from_another_thread_lets_the_task_finish(site: Site, app: App) -> None:
    """Nothing that has begun is lost, and nothing more begins."""
    running, stopped = threading.Event(), threading.Event()

    def wait(_: TaskContext) -> None:
        running.set()
        assert stopped.wait(LIMIT)

    def stop() -> None:
        assert running.wait(LIMIT)
        worker.stop()
        stopped.set()

    app.once(wait)
    worker = worker_of(site, app)
    handle = site.run(app.chain)
    stopper = threading.Thread(target=stop)
    stopper.start()
    worker.work()
    stopper.join(LIMIT)

    assert app.ran == ["1"]
    assert site.statuses(handle)["0:light"] == "completed"
    assert site.store.sessions.list() == []
    with worker_of(site, app) as other:
        assert other.run(handle.id) == "completed"
    assert app.ran == ["1", "2", "3"]


def test_stopping_twice_is_stopping_once_and_leaves_no_thread(site: Site, app: App) -> None:
    before = set(threading.enumerate())
    worker = worker_of(site, app)
    site.run(app.chain)
    worker.work()
    worker.stop()
    worker.stop()
    # Its ear for control messages ends after the wait that is under way.
    wait_until(lambda: set(threading.enumerate()) <= before, LIMIT, "its threads have ended")


# -- what goes wrong -----------------------------------------------------------------------------------------


def test_a_session_that_was_lost_is_registered_again(site: Site, app: App) -> None:
    with worker_of(site, app) as worker:
        site.run(app.chain)
        worker.work()
        end_session(site, worker)
        until_registered(site, worker, 2)
        handle = site.run(app.chain)
        worker.work()
        assert handle.result(1) == ["1", "2", "3"]
    assert len(app.ran) == 6


def test_a_session_that_is_lost_during_a_task_costs_no_second_run(site: Site, app: App) -> None:
    """G5: what the task has done is recorded under its token; the rest is that of the next generation."""

    generations: list[int] = []

    def note(_: TaskContext) -> None:
        assert worker._living is not None
        generations.append(worker._living.generation)

    def lose(ctx: TaskContext) -> None:
        note(ctx)
        app.during = note
        end_session(site, worker)
        until_registered(site, worker, 2)

    app.during = lose
    with worker_of(site, app) as worker:
        handle = site.run(app.chain)
        worker.work()
        assert handle.result(1) == ["1", "2", "3"]
    assert app.ran == ["1", "2", "3"]
    assert generations == [1, 2, 2]
    assert handle.snapshot().attempts == []
    assert broken(site.store) == []


def test_a_lost_session_whose_name_was_taken_ends_the_work_with_an_error(site: Site, app: App) -> None:
    """Nothing more begins, and what is given back is another worker's."""

    def lose(_: TaskContext) -> None:
        # As if another agent had registered under this name after the session had lapsed.
        key = site.store.keys("session", worker.name)
        site.redis.hset(key, mapping={"nonce": "another", "generation": 2})
        wait_until(lambda: worker._standing.known is None, LIMIT, "it hears of it")

    app.once(lose)
    with worker_of(site, app, name="embedded") as worker:
        handle = site.run(app.chain)
        with pytest.raises(InvalidInput, match="already named 'embedded'"):
            worker.work()
    assert app.ran == ["1"]
    assert session_of(site, worker) == (SessionState.READY, 2)
    with worker_of(site, app) as other:
        assert other.run(handle.id) == "completed"
    assert app.ran == ["1", "2", "3"]


def test_work_that_cannot_be_confirmed_is_put_down_and_goes_on_in_another_life(site: Site, app: App) -> None:
    """G16: it is told to whoever called, and the store's state stands."""

    def vanish(_: TaskContext) -> None:
        raise Stop(Unconfirmed("no reply"))

    app.once(vanish)
    with worker_of(site, app) as worker:
        handle = site.run(app.chain)
        with pytest.raises(Unconfirmed):
            worker.work()
        assert (site.record(handle, "0:light")["where"], session_of(site, worker)) == (
            "waiting",
            (SessionState.READY, 1),
        )
        worker.work()
        assert handle.result(1) == ["1", "2", "3"]
    assert app.ran == ["1", "1", "2", "3"]
    # It is no crash of the task.
    assert site.record(handle, "0:light")["crashes"] == 0


def test_an_interrupt_puts_the_work_down_and_is_no_failure_of_the_task(site: Site, app: App) -> None:
    app.once(lambda _: os.kill(os.getpid(), signal.SIGINT))
    with worker_of(site, app) as worker:
        handle = site.run(app.chain)
        with pytest.raises(KeyboardInterrupt):
            worker.work()
        assert signal.getsignal(signal.SIGINT) is signal.default_int_handler
        (lost,) = handle.snapshot().attempts
        assert (lost["capability"], lost["outcome"]) == ("0:light", "lost")
        assert "interrupted" in lost["cause"]
        worker.work()
        assert handle.result(1) == ["1", "2", "3"]
    assert app.ran == ["1", "1", "2", "3"]


def test_it_does_one_thing_at_a_time(site: Site, app: App) -> None:
    def again(ctx: TaskContext) -> None:
        with pytest.raises(InvalidInput, match="is working already"):
            worker.run(ctx.execution_id)

    app.once(again)
    with worker_of(site, app) as worker:
        handle = site.run(app.chain)
        worker.work()
        assert handle.result(1) == ["1", "2", "3"]


def test_it_does_not_work_in_the_thread_of_an_event_loop(site: Site, app: App) -> None:
    async def embed(worker: InProcessWorker) -> None:
        with pytest.raises(InvalidInput, match="to_thread"):
            worker.work()
        await asyncio.to_thread(worker.work)

    with worker_of(site, app) as worker:
        handle = site.run(app.chain)
        asyncio.run(embed(worker))
        assert handle.result(1) == ["1", "2", "3"]


def test_a_server_that_does_not_answer_is_an_error(site: Site, app: App) -> None:
    settings = Settings(resend=timedelta(seconds=0.1), renewal=timedelta(seconds=0.05))
    with (
        LossyProxy(unquote(site.store.url.removeprefix("unix://"))) as proxy,
        open_store(proxy.url, namespace=site.store.namespace, settings=settings) as store,
        proxy.down(),
        pytest.raises(StoreUnreachable, match="could not be registered"),
    ):
        InProcessWorker(Client(store=store), app.definitions)
