"""A slot with nothing to do takes what waits elsewhere and could as well be done here."""

from __future__ import annotations

from tenure import Needs, Run, recipe, task
from tenure.model.allocation import Allocation
from tests.engine.handoffs import leases_of
from tests.engine.site import Site
from tests.invariants import broken

TIGHT, WIDE = Allocation(memory="2Gi"), Allocation(memory="8Gi")


@task(needs=Needs(memory="1Gi"))
def work(n: int) -> int:
    return n


@recipe
def spread(run: Run, count: int) -> int:
    return sum(run.map(work, range(count)))


def test_a_map_is_worked_off_by_every_queue_that_fits(site: Site) -> None:
    """While all slots are busy its items are placed where they fit best; who is free first takes them."""
    tight, wide = (site.slot(work, spread, allocation=allocation) for allocation in (TIGHT, WIDE))
    handle = site.run(spread, 6)
    lease = leases_of(tight).claim()
    assert lease is not None
    tight._work(lease)
    items = [f"0:work:{n}" for n in range(6)]
    # Its one slot is taken for busy from now on.
    assert {site.record(handle, item)["queue"] for item in items} == {leases_of(tight).holder.queue}

    assert wide.drain()
    assert handle.result(1) == 15
    assert {e.data["session"] for e in handle.events() if e.kind == "claimed"} == {
        leases_of(wide).holder.session
    }
    assert list(site.redis.scan_iter(f"rq:job:{site.store.namespace}-*")) == []
    assert broken(site.store) == []


def test_what_idle_slots_of_its_own_queue_are_about_to_take_is_left_to_them(site: Site) -> None:
    tight, wide = (site.slot(work, spread, allocation=allocation) for allocation in (TIGHT, WIDE))
    assert tight.drain()
    handle = site.run(spread, 0)
    assert site.record(handle)["queue"] == leases_of(tight).holder.queue

    assert wide.drain()
    assert handle.status() == "pending"
    assert tight.drain()
    assert handle.result(1) == 0


def test_what_lacks_something_here_is_not_borrowed(site: Site) -> None:
    """G11."""
    small, wide = (site.slot(work, spread, allocation=each) for each in (Allocation(memory="1Mi"), WIDE))
    handle = site.run(spread, 2)
    assert small.drain()

    assert [event for event in handle.events() if event.kind == "claimed"] == []
    while handle.status() != "completed":
        assert wide.drain()
        assert small.drain()
    assert {e.data["session"] for e in handle.events() if e.kind == "claimed"} == {
        leases_of(wide).holder.session
    }
