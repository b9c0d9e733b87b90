"""What a replay takes from the record, and what it refuses to go on with."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from datetime import datetime
from typing import Any
from uuid import UUID

import pytest

from tenure import ExecutionFailed, Needs, Run, TaskFailed, recipe, task
from tenure.engine.definitions import RecipeDefinition, TaskDefinition
from tenure.engine.signals import Stop
from tenure.errors import Unconfirmed
from tenure.model.allocation import Allocation
from tests.engine.site import INSTANCE, Site
from tests.invariants import broken


class Bodies:
    """Tasks that note each time their code runs; each replay of a recipe is noted too."""

    def __init__(self) -> None:
        self.ran: list[str] = []

    def task(self, name: str, *, dies: int = 0, **options: Any) -> TaskDefinition[..., str]:
        """A task that returns its argument with its name; its first `dies` runs take their slot with them."""

        def body(text: str = "") -> str:
            self.ran.append(name)
            if self.ran.count(name) <= dies:
                raise Stop(Unconfirmed("the slot vanished"))
            return f"{text}{name}"

        return task(name=name, **options)(body)


def test_a_completed_capability_does_not_run_again_when_its_slot_dies(site: Site) -> None:
    """G5: replay returns the record, and only the task that was under way runs again."""
    bodies = Bodies()
    one, two, three = bodies.task("one"), bodies.task("two", dies=1), bodies.task("three")

    @recipe
    def chain(run: Run) -> str:
        bodies.ran.append("replay")
        return run.call(three, run.call(two, run.call(one)))

    definitions = (one, two, three, chain)
    handle = site.run(chain)
    first = site.slot(*definitions)
    # Without a result in hand: what was not recorded when a slot dies may run again.
    site.die_in(first)
    assert site.statuses(handle) == {"0:one": "completed", "1:two": "running"}

    site.slot(*definitions).drain()

    assert handle.result(1) == "onetwothree"
    assert bodies.ran == ["replay", "one", "two", "two", "replay", "three"]
    assert site.record(handle, "1:two")["attempt"] == 2


def test_a_completed_map_and_its_failures_are_replayed_from_the_record(site: Site) -> None:
    """G5: for a failure too; what a recipe has caught once it catches again."""
    ran: list[int] = []

    @task
    def item(n: int) -> int:
        ran.append(n)
        if n == 2:
            raise ValueError("two is refused")
        return n

    @recipe
    def maps(run: Run) -> list[Any]:
        good = run.map(item, [0, 1])
        try:
            run.call(item, 2)
        except TaskFailed as error:
            good.append(len(error.message))
        return [*good, *run.map(item, [3, 4])]

    handle = site.run(maps)
    site.slot(item, maps).drain()

    assert handle.result(1) == [0, 1, len("ValueError: two is refused"), 3, 4]
    assert sorted(ran) == [0, 1, 2, 3, 4]
    assert site.kinds(handle).count("replay") == 3


def test_replay_does_not_ask_for_the_environment_a_task_once_ran_in(site: Site) -> None:
    """G5: its demand is spent; any slot that has the code may replay over its result."""
    needs = Needs(memory="8Gi")
    bodies = Bodies()
    big, small = bodies.task("big", needs=needs), bodies.task("small")

    @recipe
    def mixed(run: Run) -> str:
        return run.call(small, run.call(big))

    handle = site.run(mixed)
    modest = site.slot(big, small, mixed)
    modest.drain()
    assert handle.explain().routes[0].reason == "awaiting_environment"

    roomy = site.slot(big, small, mixed, allocation=Allocation(memory="8Gi"))
    # It does the one thing that needs it and goes.
    claimed = roomy._bench.leases.claim()
    assert claimed is not None
    roomy._perform(claimed)
    site.retire(roomy)
    modest.drain()

    assert handle.result(1) == "bigsmall"
    assert bodies.ran == ["big", "small"]


def changed(
    name: str, call: TaskDefinition[..., str], argument: str, last: TaskDefinition[..., str]
) -> RecipeDefinition[str]:
    """A recipe whose first call is `call(argument)` and whose last is `last`."""

    def body(run: Run) -> str:
        return run.call(last, run.call(call, argument))

    return recipe(name=name)(body)


@pytest.mark.parametrize("what", ["another task", "other input"])
def test_a_recipe_that_asks_for_something_else_is_stopped_and_nothing_is_lost(site: Site, what: str) -> None:
    """G4, G5: the message has both sides; with the right code it goes on where it was."""
    bodies = Bodies()
    one, other, last = bodies.task("one"), bodies.task("other"), bodies.task("last", dies=1)
    right = changed("book", one, "a", last)
    wrong = changed("book", other, "a", last) if what == "another task" else changed("book", one, "b", last)
    handle = site.run(right)
    site.die_in(site.slot(one, other, last, right))
    before = site.statuses(handle)

    deceived = site.slot(one, other, last, wrong)
    deceived.drain()

    explanation = handle.explain()
    assert explanation.reason == "blocked"
    recorded, asked = ("0:one", "0:other") if what == "another task" else ("0:one", "0:one")
    if what == "other input":
        asked, recorded = f"{asked} with {{'text': 'b'}}", f"{recorded} with {{'text': 'a'}}"
    assert f"now asks for {asked}, but {what} is recorded there: {recorded}. " in explanation.summary
    assert handle.id in explanation.summary
    assert before["0:one"] == site.statuses(handle)["0:one"] == "completed"
    assert "other" not in bodies.ran
    assert broken(site.store) == []

    site.put_back(handle)
    site.slot(one, other, last, right).drain()

    assert handle.result(1) == "aonelast"
    assert bodies.ran == ["one", "last", "last"]


def test_a_recipe_that_catches_everything_is_stopped_all_the_same(site: Site) -> None:
    """G4: it cannot mistake its own change for a failed task and run on past it."""
    bodies = Bodies()
    one, other, last = bodies.task("one"), bodies.task("other"), bodies.task("last", dies=1)
    right = changed("book", one, "a", last)

    @recipe(name="book")
    def careless(run: Run) -> str:
        try:
            return run.call(other)
        except Exception:  # noqa: BLE001  # as careless code does
            return "went on"

    handle = site.run(right)
    site.die_in(site.slot(one, other, last, right))
    site.slot(one, other, last, careless).drain()

    assert handle.status() == "running"
    assert handle.explain().reason == "blocked"


def test_a_map_of_another_size_is_another_input(site: Site) -> None:
    """G4: the number of items is part of what was recorded."""
    bodies = Bodies()
    item, last = bodies.task("item"), bodies.task("last", dies=1)

    def over(count: int) -> Any:
        @recipe(name="maps")
        def maps(run: Run) -> str:
            return run.call(last, "".join(run.map(item, [str(n) for n in range(count)])))

        return maps

    handle = site.run(over(2))
    site.die_in(site.slot(item, last, over(2)))
    site.slot(item, last, over(3)).drain()

    assert handle.explain().reason == "blocked"
    summary = handle.explain().summary
    assert "asks for 0:item over 3 items, [{'text': '0'}, {'text': '1'}, {'text': '2'}], but" in summary
    assert "recorded there: 0:item over 2 items, [{'text': '0'}, {'text': '1'}]. " in summary


def test_what_cannot_be_read_of_the_input_does_not_hide_that_it_is_another(site: Site) -> None:
    """G4, G17: the recipe is stopped for its change all the same."""
    bodies = Bodies()
    one, last = bodies.task("one"), bodies.task("last", dies=1)
    right, wrong = changed("book", one, "a", last), changed("book", one, "b", last)
    handle = site.run(right)
    site.die_in(site.slot(one, last, right))
    site.redis.hset(site.store.keys("params", INSTANCE, handle.id), "0:one", b"\x01\xc1")

    site.slot(one, last, wrong).drain()

    explanation = handle.explain()
    assert explanation.reason == "blocked"
    assert (
        "asks for 0:one with {'text': 'b'}, but other input is recorded there: 0:one" in explanation.summary
    )
    assert "the input of 0:one: the stored data cannot be read" in explanation.summary


@pytest.mark.parametrize("lost", ["ordinal", "hash", "status"])
def test_a_record_that_lacks_a_field_stops_its_execution_where_it_is(site: Site, lost: str) -> None:
    """G17: with its bytes, and the slot goes on with others."""
    bodies = Bodies()
    one, last = bodies.task("one"), bodies.task("last", dies=1)
    book, other = changed("book", one, "a", last), changed("other", one, "b", last)
    handle = site.run(book)
    site.die_in(site.slot(one, last, book, other))
    site.edit_record(handle, "0:one", **{lost: None})

    slot = site.slot(one, last, book, other)
    slot.drain()
    sound = site.run(other)
    slot.drain()

    assert handle.explain().reason == "blocked"
    assert f"the record of 0:one cannot be read (it has no '{lost}')" in handle.explain().summary
    assert sound.result(1) == "bonelast"


def test_a_result_that_the_code_does_not_take_any_more_is_a_change(site: Site) -> None:
    """G4: the bytes are well, so the message says how to go on."""
    last = Bodies().task("last", dies=1)

    @task(name="count")
    def before() -> str:
        return "two"

    @task(name="count")
    def after() -> int:
        return 2

    def over(count: TaskDefinition[..., Any]) -> RecipeDefinition[str]:
        @recipe(name="counts")
        def counts(run: Run) -> str:
            return run.call(last, f"{run.call(count)} ")

        return counts

    handle = site.run(over(before))
    site.die_in(site.slot(before, last, over(before)))
    site.slot(after, last, over(after)).drain()

    assert handle.explain().reason == "blocked"
    assert "0:count: the result of " in handle.explain().summary
    assert "Nothing is lost. Run the code that made the record" in handle.explain().summary


@pytest.mark.parametrize("raises", [False, True])
def test_what_a_recipe_makes_of_a_swallowed_signal_is_discarded(site: Site, raises: bool) -> None:  # noqa: FBT001
    """Design 4: a bare except swallows the suspension; neither its result nor its error is recorded."""
    bodies = Bodies()
    item, late = bodies.task("item"), bodies.task("late")

    @recipe
    def greedy(run: Run) -> str:
        try:
            return "|".join(run.map(item, ["a", "b"]))
        except:  # noqa: E722  # the point
            bodies.ran.append("swallowed")
            if raises:
                raise ValueError("and now this") from None
            return "swallowed"

    handle = site.run(greedy)
    site.slot(item, late, greedy).drain()

    assert handle.result(1) == "aitem|bitem"
    assert bodies.ran == ["swallowed", "item", "item"]


def test_a_recipe_that_swallowed_a_signal_gets_it_again_at_its_next_call(site: Site) -> None:
    """Design 4: so it cannot start anything any more."""
    bodies = Bodies()
    item, late = bodies.task("item"), bodies.task("late")

    @recipe
    def greedy(run: Run) -> str:
        try:
            return "|".join(run.map(item, ["a", "b"]))
        except:  # noqa: E722  # the point
            return run.call(late)

    handle = site.run(greedy)
    site.slot(item, late, greedy).drain()

    assert handle.result(1) == "aitem|bitem"
    assert "late" not in bodies.ran


def test_signals_pass_through_except_exception(site: Site) -> None:
    """Design 4: ordinary careful code does not get in the engine's way."""
    bodies = Bodies()
    item = bodies.task("item")

    @recipe
    def careful(run: Run) -> str:
        try:
            return "|".join(run.map(item, ["a"]))
        except Exception as error:  # noqa: BLE001  # the point
            return f"caught {error!r}"

    handle = site.run(careful)
    site.slot(item, careful).drain()

    assert handle.result(1) == "aitem"


def test_a_failed_task_fails_an_execution_that_does_not_catch_it(site: Site) -> None:
    @task
    def refuse() -> None:
        raise ValueError("no paper left")

    @recipe
    def failing(run: Run) -> None:
        run.call(refuse)

    handle = site.run(failing)
    site.slot(refuse, failing).drain()

    with pytest.raises(ExecutionFailed, match="task 0:refuse failed: ValueError: no paper left"):
        handle.result(1)
    assert site.statuses(handle) == {"0:refuse": "failed"}
    assert broken(site.store) == []


def test_a_recipe_may_catch_a_failed_task_and_go_on(site: Site) -> None:
    bodies = Bodies()
    plan_b = bodies.task("plan_b")

    @task
    def refuse() -> None:
        raise ValueError("no paper left")

    @recipe
    def patient(run: Run) -> str:
        try:
            run.call(refuse)
        except TaskFailed as failed:
            return f"{run.call(plan_b)} after {failed.capability}"
        return "unreachable"

    handle = site.run(patient)
    site.slot(refuse, plan_b, patient).drain()

    assert handle.result(1) == "plan_b after 0:refuse"


def test_a_task_called_directly_in_a_recipe_is_refused_with_what_to_write(site: Site) -> None:
    bodies = Bodies()
    one = bodies.task("one")

    @recipe
    def hasty(run: Run) -> str:
        return one()

    handle = site.run(hasty)
    site.slot(one, hasty).drain()

    with pytest.raises(ExecutionFailed, match=r"recipe hasty calls task one directly.*run\.call\(one"):
        handle.result(1)
    assert bodies.ran == []
    assert one("x") == "xone"


def test_a_task_may_call_another_one_directly(site: Site) -> None:
    """It is the plain function there: what it returns becomes part of the caller's own result."""
    bodies = Bodies()
    one = bodies.task("one")

    @task
    def outer() -> str:
        return f"outer {one()}"

    @recipe
    def nested(run: Run) -> str:
        return run.call(outer)

    handle = site.run(nested)
    site.slot(one, outer, nested).drain()

    assert handle.result(1) == "outer one"


def test_the_time_and_random_ids_are_recorded(site: Site) -> None:
    """G5: every replay sees the same."""
    seen: list[tuple[datetime, UUID]] = []
    bodies = Bodies()
    item = bodies.task("item")

    @recipe
    def stamped(run: Run) -> str:
        seen.append((run.now(), run.uuid()))
        run.map(item, ["a", "b"])
        assert run.uuid() != seen[-1][1]
        return run.now().isoformat()

    handle = site.run(stamped)
    site.slot(item, stamped).drain()

    assert len(seen) == 2
    assert seen[0] == seen[1]
    assert datetime.fromisoformat(handle.result(1)) >= seen[0][0]
    assert list(site.statuses(handle).values()).count("completed") == 7


def test_an_execution_stays_with_the_version_it_was_started_with(site: Site) -> None:
    """Design 4: a deploy of a new version changes nothing for what is under way."""

    @recipe(name="greeting", version="1")
    def older(run: Run) -> str:
        return "hi"

    @recipe(name="greeting", version="2")
    def newer(run: Run) -> str:
        return "hello"

    fresh = site.slot(newer)
    handle, other = site.run(older), site.run(newer)
    fresh.drain()

    assert other.result(1) == "hello"
    explanation = handle.explain()
    assert explanation.reason == "awaiting_environment"
    assert "no running worker has loaded its code" in explanation.summary

    site.slot(older, newer).drain()

    assert handle.result(1) == "hi"


def test_a_recipe_that_makes_fewer_calls_than_are_recorded_is_stopped(site: Site) -> None:
    """G4: completing would throw away what the record says."""
    bodies = Bodies()
    one, last = bodies.task("one"), bodies.task("last", dies=1)
    right = changed("book", one, "a", last)

    @recipe(name="book")
    def shorter(run: Run) -> str:
        return "short"

    handle = site.run(right)
    site.die_in(site.slot(one, last, right))
    site.slot(one, last, shorter).drain()

    explanation = handle.explain()
    assert explanation.reason == "blocked"
    assert "now ends after 0 calls, but 0:one is recorded too" in explanation.summary


def test_calls_from_another_thread_are_refused_by_name(site: Site) -> None:
    """Their order could not be replayed."""
    bodies = Bodies()
    one = bodies.task("one")

    @recipe
    def threaded(run: Run) -> str:
        with ThreadPoolExecutor(1) as pool:
            return pool.submit(run.call, one, "x").result()

    handle = site.run(threaded)
    site.slot(one, threaded).drain()
    with pytest.raises(ExecutionFailed, match=r"another thread.*run\.map"):
        handle.result(1)
    assert bodies.ran == []
