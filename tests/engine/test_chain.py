"""A chain of tasks in one slot: when results are recorded, and to whom it gives way."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from datetime import datetime, timedelta
from typing import Any
from urllib.parse import unquote

import pytest

from tenure import Run, recipe, task
from tenure.engine import live, steps
from tenure.engine.presence import Phase
from tenure.errors import Unconfirmed
from tests.engine.site import INSTANCE, OpenSite, Site, Switch, working
from tests.invariants import broken
from tests.proxy import LossyProxy
from tests.waiting import wait_until


@pytest.fixture
def cheap(monkeypatch: pytest.MonkeyPatch) -> None:
    """However busy the machine is, no result is dear, and none waits too long."""
    monkeypatch.setattr(live, "DEAR_SECONDS", 3600.0)
    monkeypatch.setattr(steps, "IN_HAND_SECONDS", 3600.0)


@task
def one() -> str:
    return "one"


@task
def two(text: str) -> str:
    return f"{text} two"


@task(effects="once")
def once() -> str:
    return "once"


class Looker:
    """A recipe that looks, between its calls, at what is recorded of the call before."""

    def __init__(self, site: Site, looked_at: Any) -> None:
        self.seen: list[str] = []

        @recipe
        def looking(run: Run) -> str:
            result = run.call(looked_at)
            stored = site.store.executions.get(INSTANCE, run.execution_id)
            assert stored is not None
            self.seen.append(stored.records[f"0:{looked_at.name}"]["status"])
            return run.call(two, result)

        self.recipe = looking


@pytest.mark.usefixtures("cheap")
def test_a_cheap_result_is_recorded_by_the_step_that_opens_the_next_task(site: Site) -> None:
    """Design 6: that is what a chain saves; B starts only with A acknowledged in the same script."""
    looker = Looker(site, one)
    slot = site.slot(one, two, looker.recipe)
    handle = site.run(looker.recipe)
    slot.drain()

    assert handle.result(1) == "one two"
    assert looker.seen == ["running"]
    kinds = [(event.kind, event.capability) for event in handle.events()]
    assert kinds.index(("completed", "0:one")) < kinds.index(("started", "1:two"))


@pytest.mark.usefixtures("cheap")
def test_the_result_of_a_once_task_is_recorded_at_once(site: Site) -> None:
    """Design 6: it cannot be made again."""
    looker = Looker(site, once)
    slot = site.slot(once, two, looker.recipe)
    handle = site.run(looker.recipe)
    slot.drain()

    assert handle.result(1) == "once two"
    assert looker.seen == ["completed"]


def test_the_result_of_a_slow_task_is_recorded_at_once(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    """Design 6: it would be dear to make again. Here any task is slow."""
    monkeypatch.setattr(live, "DEAR_SECONDS", 0.0)
    monkeypatch.setattr(steps, "IN_HAND_SECONDS", 3600.0)
    looker = Looker(site, one)
    slot = site.slot(one, two, looker.recipe)
    handle = site.run(looker.recipe)
    slot.drain()

    assert handle.result(1) == "one two"
    assert looker.seen == ["completed"]


def test_a_result_in_hand_is_recorded_while_the_recipe_takes_its_time(
    site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Design 6: nothing waits longer than 50 ms for the recipe's own code."""
    monkeypatch.setattr(live, "DEAR_SECONDS", 3600.0)
    go_on = threading.Event()

    @recipe
    def ponderous(run: Run) -> str:
        result = run.call(one)
        assert go_on.wait(30)
        return run.call(two, result)

    slot = site.slot(one, two, ponderous)
    handle = site.run(ponderous)
    with working(slot):
        try:
            wait_until(
                lambda: site.statuses(handle).get("0:one") == "completed", 10, "the result is recorded"
            )
            assert site.record(handle)["where"] == "leased"
        finally:
            go_on.set()

    assert handle.result(1) == "one two"
    assert site.kinds(handle, "0:one").count("completed") == 1


def test_a_value_made_while_a_result_is_being_recorded_is_kept(
    site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    """G5: the recipe's own code runs on meanwhile; what `run.now` gives it then must reach the record too."""
    monkeypatch.setattr(live, "DEAR_SECONDS", 3600.0)
    on_its_way, seen = threading.Event(), list[datetime]()

    @task
    def item(n: int) -> int:
        return n

    @recipe
    def stamped(run: Run) -> int:
        run.call(one)
        if not seen:
            assert on_its_way.wait(30)
        seen.append(run.now())
        return sum(run.map(item, [1, 2]))

    slot = site.slot(one, item, stamped)
    step = slot._bench.leases.step

    def slow_step(**arguments: Any) -> Any:
        reply = step(**arguments)
        if threading.current_thread().name == "tenure-committer":
            on_its_way.set()
            # The reply is on its way back, for longer than the recipe needs to ask for the time.
            threading.Event().wait(0.2)
        return reply

    monkeypatch.setattr(slot._bench.leases, "step", slow_step)
    handle = site.run(stamped)
    slot.drain()

    assert handle.result(1) == 3
    assert len(seen) == 2
    assert seen[0] == seen[1]


@pytest.mark.usefixtures("cheap")
def test_a_more_urgent_execution_interrupts_a_chain(site: Site) -> None:
    """Design 6: after the task that runs, not before; the chain then goes on where it was."""
    ran: list[str] = []

    @task
    def note(text: str) -> str:
        ran.append(text)
        if text == "low 1":
            site.run(urgent, id="urgent", priority=9)
            site.run(urgent, id="patient", priority=0)
        return text

    @recipe
    def urgent(run: Run) -> str:
        return run.call(note, run.execution_id)

    @recipe
    def slow(run: Run) -> list[str]:
        return [run.call(note, f"low {n}") for n in range(4)]

    slot = site.slot(note, urgent, slow)
    handle = site.run(slow)
    slot.drain()

    assert ran == ["low 0", "low 1", "urgent", "low 2", "low 3", "patient"]
    assert handle.result(1) == ["low 0", "low 1", "low 2", "low 3"]
    assert broken(site.store) == []


@pytest.mark.usefixtures("cheap")
def test_a_draining_slot_finishes_its_task_and_gives_the_rest_back(site: Site) -> None:
    """Design 10: no attempt, no crash; another slot goes on with the next task."""
    ran, switch = [], Switch()

    @task
    def note(n: int) -> int:
        ran.append(n)
        switch.drains = n == 1
        return n

    @recipe
    def chain(run: Run) -> list[int]:
        return [run.call(note, n) for n in range(4)]

    slot = site.slot(note, chain, presence=switch)
    handle = site.run(chain)
    slot.drain()

    assert ran == [0, 1]
    assert site.statuses(handle) == {"0:note": "completed", "1:note": "completed", "2:note": "ready"}
    assert site.record(handle, "2:note")["where"] == "waiting"
    assert switch.shown[-1] == (Phase.IDLE, ())

    site.slot(note, chain).drain()

    assert handle.result(1) == [0, 1, 2, 3]
    assert ran == [0, 1, 2, 3]
    assert handle.snapshot().attempts == []
    assert broken(site.store) == []


def test_a_draining_slot_gives_back_what_it_was_just_granted(site: Site) -> None:
    """Design 10, G11: the same route, untouched, and for any slot of the queue."""
    slot = site.slot(one, two, presence=Switch(drains=True))
    looker = Looker(site, one)
    drained = site.slot(one, two, looker.recipe, presence=Switch(drains=True))
    handle = site.run(looker.recipe)
    drained.drain()
    slot.drain()

    assert "handoff" in site.kinds(handle)
    record = site.record(handle)
    assert (record["where"], record["attempt"], record.get("avoid")) == ("waiting", 1, None)

    site.slot(one, two, looker.recipe).drain()
    assert handle.result(1) == "one two"


@pytest.mark.usefixtures("cheap")
def test_a_slot_shows_what_it_holds_before_user_code_runs(site: Site) -> None:
    """Design 6: the agent renews what is shown, and charges a death by the phase."""
    switch = Switch()
    phases: list[tuple[Phase, list[str]]] = []

    def noted() -> None:
        phase, leases = switch.shown[-1]
        phases.append((phase, [route.rpartition("/")[2] for route, _, started in leases if started]))

    @task
    def look() -> None:
        noted()

    @recipe
    def looking(run: Run) -> None:
        noted()
        run.call(look)
        noted()
        run.map(look_at, [1])

    @task
    def look_at(n: int) -> None:
        noted()

    slot = site.slot(look, look_at, looking, presence=switch)
    handle = site.run(looking)
    slot.drain()

    assert handle.status() == "completed"
    recipe_code, task_code = (Phase.RECIPE, ["recipe"]), (Phase.TASK, ["0:look"])
    # After the task, the result in hand is still held by its own lease.
    in_hand = (Phase.RECIPE, ["0:look"])
    assert phases[:3] == [recipe_code, task_code, in_hand]
    assert phases[3] == (Phase.TASK, ["1:look_at:0"])


@pytest.fixture
def proxy(url: str) -> Iterator[LossyProxy]:
    with LossyProxy(unquote(url.removeprefix("unix://"))) as proxy:
        yield proxy


@pytest.mark.usefixtures("cheap")
def test_a_slot_that_gets_no_replies_stops_and_its_state_stands(
    open_site: OpenSite, site: Site, proxy: LossyProxy
) -> None:
    """G16: it never carries on as the owner; no recipe can catch this, and no later task starts."""
    ran: list[int] = []
    remote = open_site(proxy.url, resend=timedelta(seconds=0.3))

    @task
    def note(n: int) -> int:
        ran.append(n)
        if n == 1 and len(ran) == 2:
            proxy.lose_replies(1000)
        return n

    @recipe
    def chain(run: Run) -> list[int]:
        results = []
        for n in range(4):
            try:
                results.append(run.call(note, n))
            except Exception:  # noqa: BLE001  # as careless code does
                results.append(-1)
        return results

    slot = remote.slot(note, chain)
    handle = site.run(chain)
    with pytest.raises(Unconfirmed):
        slot.drain()

    assert ran == [0, 1]
    # The step took effect: what it recorded stays, what it granted is taken back from the dead slot.
    assert site.statuses(handle) == {"0:note": "completed", "1:note": "completed", "2:note": "running"}
    proxy.lose_replies(0)
    site.bury(slot)
    site.slot(note, chain).drain()

    assert handle.result(1) == [0, 1, 2, 3]
    assert ran == [0, 1, 2, 3]
