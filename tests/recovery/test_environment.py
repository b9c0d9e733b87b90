"""Work that needs an environment which is not there: it waits at nobody's cost, and survives a death."""

from __future__ import annotations

from collections import Counter

from tenure import Needs
from tests.engine.handoffs import handed_off
from tests.jobs import environments
from tests.processes import Site

LIMIT = 30
MODULES = ("tests.jobs.environments",)
PARKED = 1000
#: Every round of the scheduler's index repair checks as many as it ever does, whatever is parked.
ASLEEP = 500
ROUNDS = 10


def runs(site: Site) -> Counter[str]:
    """How often each task was run."""
    return Counter(entry["task"] for entry in site.entries("run"))


def test_a_slot_killed_before_the_yield_leaves_one_publication_and_no_second_run(site: Site) -> None:
    """G5, G11: the directive lies beside its result, and a replay under a fresh lease accepts it."""
    site.scheduler()
    site.worker(name="small", allocation="memory=1Gi", modules=MODULES)
    handle = site.client.start(environments.dies_before_it_yields, "eu")
    site.until(lambda: "0:requires" in handle.snapshot().records, "the task is handed off")
    site.worker(name="large", allocation="memory=2Gi", modules=MODULES)

    site.until(lambda: len(handed_off(handle)) == 2, "the suspension is accepted")
    record = handle.snapshot().records["recipe"]
    assert (record["revision"], record["crashes"]) == (2, 1)
    assert handle.snapshot().job_needs == Needs(label={"zone": "eu"})
    assert [(e.capability, e.data["published"]) for e in handed_off(handle)] == [
        ("0:requires", True),
        ("recipe", True),
    ]
    site.worker(name="eu", allocation="memory=1Gi,label.zone=eu", modules=MODULES)

    assert handle.result(LIMIT) == ["eu", "last"]
    assert runs(site) == {"requires": 1, "last": 1}
    assert len(handed_off(handle)) == 2


class Rounds:
    """What the server does per round of an idle scheduler."""

    def __init__(self, site: Site) -> None:
        self._site = site

    def calls(self) -> Counter[str]:
        stats = self._site.raw.info("commandstats")
        counted = {name.removeprefix("cmdstat_"): int(one["calls"]) for name, one in stats.items()}
        return Counter(counted)

    def measure(self) -> dict[str, float]:
        """Calls by command and round, over several rounds. Placement looks at `unplaced` once in each."""
        before = self.calls()

        def passed() -> int:
            return self.calls()["srandmember"] - before["srandmember"]

        self._site.until(lambda: passed() >= ROUNDS, "the scheduler has made its rounds")
        spent = self.calls() - before
        # What this measurement itself asks is not counted.
        del spent["info"]
        return {name: count / spent["srandmember"] for name, count in spent.items()}


def test_what_nobody_can_admit_costs_nobody_anything_until_it_can_run(site: Site) -> None:
    """Design 5: a thousand that are parked add nothing to a round; one fitting worker then drains them."""
    site.scheduler()
    small = site.worker(name="small", allocation="memory=1Gi", modules=MODULES)
    # A round checks one page of live executions; so there is one to check before anything is parked.
    site.client.start_many(environments.demanding, range(-ASLEEP, 0), delay="1d")
    rounds = Rounds(site)
    rounds.measure()
    without = rounds.measure()

    handles = site.client.start_many(environments.demanding, range(PARKED))
    site.until(lambda: site.store.duties.size("environment") == PARKED, "all of them are parked")
    rounds.measure()
    parked = rounds.measure()

    # A round is as long as the machine makes it; what goes by the clock may come once more or less in it.
    grown = {name: count for name, count in parked.items() if count > 1.5 * without.get(name, 0) + 5}
    assert grown == {}
    assert site.entries() == []
    for handle in (handles[0], handles[-1]):
        assert {event.kind for event in handle.events()}.isdisjoint({"claimed", "replay", "handoff"})
    assert handles[0].explain().reason == "awaiting_environment"

    site.worker(name="large", allocation="memory=4Gi", modules=MODULES)
    site.until(lambda: len(site.entries("run")) >= PARKED, "all have run")
    for n in (0, PARKED - 1):
        assert handles[n].result(LIMIT) == str(n)
    assert runs(site) == {str(n): 1 for n in range(PARKED)}
    assert small.popen.poll() is None
