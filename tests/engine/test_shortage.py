"""The outbox tells of a demand that nobody meets, also when there is no slot to hand anything off."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tenure import Needs, Run, recipe
from tenure.model.allocation import Allocation
from tenure.store.outbox import OutboxEvent
from tests.engine.site import Site
from tests.posting import waiting

SMALL, BIG = Allocation(memory="1Gi"), Allocation(memory="8Gi")


@recipe(needs=Needs(memory="4Gi"))
def demanding(run: Run, n: int) -> int:
    return n


@recipe
def modest(run: Run) -> str:
    return "done"


def told(site: Site) -> list[Mapping[str, Any]]:
    events = site.store.duties.due_events(limit=100)
    return [event.body for event in events if isinstance(event, OutboxEvent)]


def test_a_start_that_nobody_can_take_is_told_once_for_all_that_want_the_same(site: Site) -> None:
    """A pool of nothing has no slot that could hand anything off; so who starts tells it."""
    handles = [site.run(demanding, n) for n in range(3)]
    site.client.start_many(demanding, [3, 4])

    (body,) = told(site)
    assert body == {
        "kind": "awaiting_environment",
        "instance": "default",
        "execution": handles[0].id,
        "capability": "recipe",
        "code": "recipe demanding@1",
        "key": "recipe demanding@1 memory=4Gi",
        "demand": {"memory": "4Gi"},
        "sources": {"memory": "recipe"},
        "allocation": {},
        "mismatches": [],
        "published": True,
    }
    site.client.start(demanding, 5, needs=Needs(memory="16Gi"))
    assert [body["demand"] for body in told(site)] == [{"memory": "4Gi"}, {"memory": "16Gi"}]


def test_the_nearest_queue_with_the_code_is_told_along(site: Site) -> None:
    site.slot(demanding, allocation=SMALL)
    site.run(demanding, 1)

    (body,) = told(site)
    assert body["mismatches"] == [{"property": "memory", "required": "4Gi", "actual": "1Gi"}]
    assert body["allocation"] == {"memory": "1Gi"}


def test_it_is_not_told_again_because_other_sessions_come_and_go(site: Site) -> None:
    """A rolling deploy of a pool that cannot help should start no machine."""
    site.run(demanding, 1)
    other = site.slot(demanding, allocation=SMALL)
    site.run(demanding, 2)
    site.retire(other)
    site.run(demanding, 3)

    assert len(told(site)) == 1


def test_what_somebody_can_take_is_not_told(site: Site) -> None:
    site.slot(demanding, modest, allocation=BIG)
    site.run(demanding, 1)
    site.run(modest)

    assert waiting(site.store) == []


def test_what_is_parked_as_it_starts_is_looked_at_only_when_sessions_change(site: Site) -> None:
    """It was placed by the registry as it is, so there is nothing for a scheduler to do."""
    site.run(demanding, 1)
    assert site.store.duties.unplaced(10) == []
