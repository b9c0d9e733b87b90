"""Read-only replay: what it finds, where it ends, and that it leaves everything as it is (G13)."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from datetime import datetime
from functools import partial
from typing import Any

import pytest
import redis

from tenure import (
    Handle,
    Needs,
    NonDeterministicRecipe,
    ReplayCacheMiss,
    ReplayedCall,
    Run,
    TaskCancelled,
    TaskContext,
    TaskFailed,
    recipe,
    task,
)
from tenure.engine.definitions import RecipeDefinition
from tenure.engine.ending import Replayed
from tenure.engine.signals import Stop
from tenure.errors import DirectCall, InvalidInput, Malformed, MissReason, RecipeMisfit, Unconfirmed
from tenure.model.allocation import Allocation
from tenure.model.demand import Layer
from tests.client.stored import dump
from tests.engine.site import INSTANCE, Site, working

SMALL, BIG = Allocation(memory="1Gi"), Allocation(memory="8Gi")

ran: list[str] = []


@pytest.fixture(autouse=True)
def nothing_ran() -> None:
    ran.clear()


@task
def one(text: str = "") -> str:
    ran.append("one")
    return f"{text}one"


@task
def two(text: str = "") -> str:
    ran.append("two")
    return f"{text}two"


@task
def refuse(text: str) -> str:
    ran.append("refuse")
    raise ValueError(text)


@task
def square(n: int) -> int:
    ran.append("square")
    if n == 13:
        raise ValueError("13 brings bad luck")
    return n * n


@task(needs=Needs(memory="4Gi"))
def heavy(text: str) -> str:
    ran.append("heavy")
    return f"{text}heavy"


@task(effects="once")
def charge() -> str:
    ran.append("charge")
    raise Stop(Unconfirmed("the slot vanished"))


@task
def grow(ctx: TaskContext) -> str:
    ran.append("grow")
    ctx.suspend(Needs(memory="4Gi"))
    return "grown"


TASKS = (one, two, refuse, square, heavy, charge, grow)


@recipe
def chain(run: Run) -> str:
    return run.call(two, run.call(one, "a"))


def named(name: str, body: Callable[[Run], Any]) -> RecipeDefinition[Any]:
    """Other code for the recipe of that name."""

    def function(run: Run) -> Any:
        return body(run)

    return recipe(name=name)(function)


def writes(client: redis.Redis) -> dict[str, int]:
    """How often each command that writes has been called on the server; scripts may write."""
    known: Any = client.command()
    writing = {name for name, facts in known.items() if "write" in facts["flags"]}
    stats: Any = client.info("commandstats")
    calls = {name.removeprefix("cmdstat_"): facts["calls"] for name, facts in stats.items()}
    return {name: n for name, n in calls.items() if name in writing | {"eval", "evalsha", "fcall"}}


@contextmanager
def untouched(site: Site) -> Iterator[None]:
    """No command that writes reaches the server, and every key keeps its value to the byte."""
    before, written = dump(site.store), writes(site.redis)
    assert before
    assert written["evalsha"]
    try:
        yield
    finally:
        assert writes(site.redis) == written
        assert dump(site.store) == before


def replay(
    site: Site,
    handle: Handle,
    code: RecipeDefinition[Any],
    observer: Callable[[ReplayedCall], object] | None = None,
) -> Replayed:
    """Replay read-only; no task runs and nothing is written, whatever comes of it."""
    so_far = list(ran)
    with untouched(site):
        try:
            return site.client.replay(handle.id, observer, recipe=code)
        finally:
            assert ran == so_far


def missed(site: Site, handle: Handle, code: RecipeDefinition[Any]) -> tuple[str, MissReason]:
    """Where the record has no more."""
    with pytest.raises(ReplayCacheMiss, match=f"execution {handle.id}: replays up to ") as caught:
        replay(site, handle, code)
    assert caught.value.execution_id == handle.id
    return caught.value.capability, caught.value.reason


def started(site: Site, code: RecipeDefinition[Any], *, at: Allocation | None = None) -> Handle:
    """An execution on which one slot has worked until there was nothing to do."""
    slot = site.slot(*TASKS, code, allocation=at)
    handle = site.run(code)
    slot.drain()
    return handle


# -- what is recorded ------------------------------------------------------------------------------------


def test_a_completed_execution_replays_to_its_result(site: Site) -> None:
    """G13: every call is answered from the record, in order, and no task runs."""
    handle = started(site, chain)
    calls: list[ReplayedCall] = []

    replayed = replay(site, handle, chain, calls.append)

    assert (replayed.execution, replayed.status, replayed.calls) == (handle.id, "completed", 2)
    assert (replayed.result, replayed.error) == ("aonetwo", None)
    assert [(c.capability, c.task, c.ordinal, c.outcome, c.size, c.error) for c in calls] == [
        ("0:one", "one", 0, "completed", None, None),
        ("1:two", "two", 1, "completed", None, None),
    ]
    assert ran == ["one", "two"]


def test_maps_values_timers_and_failures_are_answered(site: Site) -> None:
    """G13: the observer sees each call once, with how it ended."""

    def body(run: Run) -> list[Any]:
        made: list[Any] = [
            run.uuid().hex,
            run.now().isoformat(),
            *run.map(square, [1, 2]),
            *run.map(square, []),
        ]
        for call in (lambda: run.call(refuse, "no ink"), lambda: run.map(square, [1, 13])):
            try:
                call()
            except TaskFailed as error:
                made.append(error.message)
        run.sleep("1h")
        return made

    mixed = named("mixed", body)
    handle = started(site, mixed)
    assert missed(site, handle, mixed) == ("6:sleep", MissReason.AWAIT_NOT_READY)
    site.pass_ms(3600_001)
    assert site.store.duties.make_ready(site.lead(), f"{INSTANCE}/{handle.id}/recipe") == "dispatched"
    site.slot(*TASKS, mixed).drain()
    calls: list[ReplayedCall] = []

    replayed = replay(site, handle, mixed, calls.append)

    assert replayed.result == handle.result(1)
    assert replayed.result[2:] == [1, 4, "ValueError: no ink", "ValueError: 13 brings bad luck"]
    assert [(c.capability, c.outcome, c.size) for c in calls] == [
        ("0:uuid", "completed", None),
        ("1:now", "completed", None),
        ("2:square", "completed", 2),
        ("3:square", "completed", None),
        ("4:refuse", "failed", None),
        ("5:square", "failed", 2),
        ("6:sleep", "completed", None),
    ]
    assert [c.error for c in calls if c.error] == [
        "ValueError: no ink",
        "5:square:1: ValueError: 13 brings bad luck",
    ]


def test_a_failed_execution_replays_to_its_failure(site: Site) -> None:
    """G13: with the recorded error, whatever the replay's own says."""
    failing = named("failing", lambda run: run.call(refuse, "no ink"))
    handle = started(site, failing)
    calls: list[ReplayedCall] = []

    replayed = replay(site, handle, failing, calls.append)

    assert (replayed.status, replayed.calls, replayed.result) == ("failed", 1, None)
    assert replayed.error == "task 0:refuse failed: ValueError: no ink"
    assert [(c.outcome, c.error) for c in calls] == [("failed", "ValueError: no ink")]


def test_a_cancellation_is_raised_in_the_recipe(site: Site) -> None:
    """G13, G14: as the record says; a recipe that catches it comes to where the record ends."""
    waiting = named("waiting", lambda run: run.call(heavy, "b"))
    handle = started(site, waiting)
    handle.cancel("enough")
    calls: list[ReplayedCall] = []

    replayed = replay(site, handle, waiting, calls.append)

    assert (replayed.status, replayed.error) == ("cancelled", "enough")
    assert [(c.capability, c.outcome, c.error) for c in calls] == [("0:heavy", "cancelled", "enough")]

    def careful(run: Run) -> str:
        try:
            return run.call(heavy, "b")
        except TaskCancelled:
            return "went on"

    assert missed(site, handle, named("waiting", careful)) == ("recipe", MissReason.JOB_RESULT_MISSING)


# -- where the record ends -------------------------------------------------------------------------------


def nobody_began(site: Site) -> tuple[Handle, RecipeDefinition[Any]]:
    return site.run(chain), chain


def parked(site: Site) -> tuple[Handle, RecipeDefinition[Any]]:
    code = named("parks", lambda run: run.call(heavy, run.call(one)))
    return started(site, code, at=SMALL), code


def sleeping(site: Site) -> tuple[Handle, RecipeDefinition[Any]]:
    def body(run: Run) -> None:
        run.call(one)
        run.sleep("1h")

    code = named("sleeps", body)
    return started(site, code), code


def unknown(site: Site) -> tuple[Handle, RecipeDefinition[Any]]:
    code = named("buys", lambda run: run.call(charge))
    handle = site.run(code)
    site.die_in(site.slot(*TASKS, code))
    return handle, code


def mapping(site: Site) -> tuple[Handle, RecipeDefinition[Any]]:
    code = named("maps", lambda run: run.map(square, [1, 2, 3]))
    slot, handle = site.slot(*TASKS, code), site.run(code)
    for _ in range(2):
        claimed = slot._bench.leases.claim()
        assert claimed is not None
        slot._advance(claimed) if claimed.is_recipe else slot._perform(claimed)
    return handle, code


TASK, TIME = MissReason.TASK_RESULT_MISSING, MissReason.AWAIT_NOT_READY


@pytest.mark.parametrize(
    ("make", "capability", "reason"),
    [
        (nobody_began, "0:one", TASK),
        (parked, "1:heavy", TASK),
        (sleeping, "1:sleep", TIME),
        (unknown, "0:charge", TASK),
        (mapping, "0:square", TASK),
    ],
)
def test_what_is_open_ends_the_replay_at_once(
    site: Site,
    make: Callable[[Site], tuple[Handle, RecipeDefinition[Any]]],
    capability: str,
    reason: MissReason,
) -> None:
    """G13: it waits for nothing; the error says where, and what is missing."""
    handle, code = make(site)
    assert missed(site, handle, code) == (capability, reason)


def test_a_timer_and_a_value_that_were_never_asked_for_are_missing(site: Site) -> None:
    """G13: a replay makes no value of its own."""
    handle = site.run(chain)
    assert missed(site, handle, named("chain", lambda run: run.sleep("1s"))) == ("0:sleep", TIME)
    assert missed(site, handle, named("chain", lambda run: run.now())) == ("0:now", TASK)
    assert missed(site, handle, named("chain", lambda run: run.uuid())) == ("0:uuid", TASK)


def test_a_map_says_how_much_of_it_is_there(site: Site) -> None:
    handle, code = mapping(site)
    with pytest.raises(ReplayCacheMiss, match=r"which has \d of 3 results yet \(task_result_missing\)"):
        replay(site, handle, code)


def test_a_recipe_that_returns_before_its_execution_has_ended(site: Site) -> None:
    """G13: its result is nowhere recorded, and is not recorded by the replay."""
    handle = site.run(chain)
    assert missed(site, handle, named("chain", lambda run: "done")) == (
        "recipe",
        MissReason.JOB_RESULT_MISSING,
    )


def test_what_its_own_code_raises_comes_out(site: Site) -> None:
    """G13: of an execution that has not ended, for which a worker would record it."""
    handle = site.run(chain)
    with pytest.raises(ZeroDivisionError):
        replay(site, handle, named("chain", lambda run: 1 // 0))
    assert handle.status() == "pending"


def test_an_end_that_came_from_outside_is_not_held_against_the_recipe(site: Site) -> None:
    """G13: a deadline ends an execution wherever its recipe is."""
    handle = site.run(chain, deadline="1s")
    site.pass_ms(1001)
    assert site.store.duties.end_overdue(site.lead(), f"{INSTANCE}/{handle.id}") == "ended"
    assert missed(site, handle, chain) == ("0:one", TASK)
    assert missed(site, handle, named("chain", lambda run: "done")) == (
        "recipe",
        MissReason.JOB_RESULT_MISSING,
    )


def test_one_that_is_being_ended_is_not_held_against_the_recipe(site: Site) -> None:
    """G13: no worker replays it any more, so its own code fails nothing."""
    handle, code = unknown(site)
    assert handle.cancel("enough") == "unknown"
    assert missed(site, handle, code) == ("0:charge", TASK)
    raising = named("buys", lambda run: 1 // 0)
    assert missed(site, handle, raising) == ("recipe", MissReason.JOB_RESULT_MISSING)


def test_a_replay_changes_nothing_for_the_slot_that_works_meanwhile(site: Site) -> None:
    """G13: it takes no lease and voids no frame; what it sees is of one moment."""
    go = threading.Event()

    @task
    def gated(n: int) -> int:
        ran.append("gated")
        assert go.wait(30)
        return n + 1

    def body(run: Run) -> int:
        n = run.call(gated, 0)
        for _ in range(40):
            n = run.call(square, n) % 11 + 1
        return n

    long = named("long", body)
    handle = site.run(long)
    with working(site.slot(*TASKS, gated, long)):
        assert missed_while_working(site, handle, long) == 0
        go.set()
        reached = 0
        while handle.status() != "completed":
            answered = missed_while_working(site, handle, long)
            assert answered >= reached
            reached = answered
    assert replay(site, handle, long).result == handle.result(1)
    assert ran.count("gated") == 1
    assert ran.count("square") == 40
    assert site.kinds(handle).count("replay") == 1


def missed_while_working(site: Site, handle: Handle, code: RecipeDefinition[Any]) -> int:
    calls: list[ReplayedCall] = []
    try:
        site.client.replay(handle.id, calls.append, recipe=code)
    except ReplayCacheMiss:
        assert [call.ordinal for call in calls] == list(range(len(calls)))
    return len(calls)


# -- a recipe that has changed ---------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("body", "said"),
    [
        (
            lambda run: run.call(one, run.call(two, "a")),
            r"at call 0 the recipe now asks for 0:two, but another task is recorded there: 0:one\.",
        ),
        (
            lambda run: run.call(two, run.call(one, "b")),
            "asks for 0:one with {'text': 'b'}, but other input is recorded there: 0:one with {'text': 'a'}",
        ),
        (
            lambda run: run.map(one, ["a"]),
            r"0:one over 1 item, \[{'text': 'a'}\], but other input is .*: 0:one with {'text': 'a'}",
        ),
        (lambda run: run.call(one, "a") + "two", "now ends after 1 call, but 1:two is recorded too"),
        (lambda run: chain(run)[::-1], "now returns 'owtenoa', but another result is recorded: 'aonetwo'"),
        (
            lambda run: run.call(two, run.call(one, "a")) and 1 // 0,
            "now raises ZeroDivisionError.* it completed",
        ),
    ],
    ids=["order", "input", "map", "fewer calls", "result", "raises"],
)
def test_a_changed_recipe_is_told_with_both_sides(site: Site, body: Callable[[Run], Any], said: str) -> None:
    """G13, G4: what was recorded and what is asked for."""
    handle = started(site, chain)
    with pytest.raises(
        NonDeterministicRecipe, match=f"execution {handle.id}: .*{said}.*Nothing is lost"
    ) as caught:
        replay(site, handle, named("chain", body))
    assert caught.value.execution_id == handle.id
    assert caught.value.capability in said or caught.value.capability == "recipe"


def test_the_items_of_a_map_are_shown_where_they_differ(site: Site) -> None:
    """G13, G4: also of many, and a call that is in the middle."""
    handle = started(site, named("many", lambda run: run.map(one, [str(n) for n in range(300)])))
    with pytest.raises(NonDeterministicRecipe) as caught:
        replay(site, handle, named("many", lambda run: run.map(one, [str(n % 299) for n in range(300)])))
    assert "0:one over 300 items, …" in str(caught.value)
    assert "{'text': '0'}], but other input is recorded there" in str(caught.value)
    assert "{'text': '299'}]. Nothing is lost" in str(caught.value)
    assert len(str(caught.value)) < 700


def test_another_duration_and_another_number_of_items_than_none(site: Site) -> None:
    """Neither has parameters on record."""
    handle, _ = sleeping(site)

    def longer(run: Run) -> None:
        run.call(one)
        run.sleep("2h")

    with pytest.raises(NonDeterministicRecipe, match=r"asks for 1:sleep with 7200\.0, but other input"):
        replay(site, handle, named("sleeps", longer))
    nothing = started(site, named("none", lambda run: run.map(one, [])))
    with pytest.raises(NonDeterministicRecipe, match=r"\[{'text': 'a'}\], but .* 0:one with \[\]\."):
        replay(site, nothing, named("none", lambda run: run.map(one, ["a"])))


def test_more_calls_than_a_completed_execution_made_are_missing(site: Site) -> None:
    handle = started(site, chain)
    assert missed(site, handle, named("chain", lambda run: run.call(one, chain(run)))) == ("2:one", TASK)


def test_a_failed_execution_whose_recipe_now_returns_has_changed(site: Site) -> None:
    handle = started(site, named("failing", lambda run: run.call(refuse, "no ink")))

    def careful(run: Run) -> str:
        try:
            return run.call(refuse, "no ink")
        except TaskFailed:
            return "went on"

    with pytest.raises(
        NonDeterministicRecipe, match=r"now returns 'went on', .* it failed: task 0:refuse failed"
    ):
        replay(site, handle, named("failing", careful))


def raising(error: Callable[[], Exception]) -> RecipeDefinition[Any]:
    def body(run: Run) -> None:
        run.call(one)
        raise error()

    return named("raises", body)


def test_a_failed_execution_whose_recipe_now_raises_another_type_has_changed(site: Site) -> None:
    """G13: both are shown."""
    handle = started(site, raising(lambda: ValueError("no ink")))
    said = r"now raises KeyError: 'ink', but it is recorded that it failed otherwise: ValueError: no ink\."
    with pytest.raises(NonDeterministicRecipe, match=said) as caught:
        replay(site, handle, raising(lambda: KeyError("ink")))
    assert caught.value.capability == "recipe"


def test_the_text_of_an_error_alone_may_differ(site: Site) -> None:
    """G13: it has an address in it, or a time."""
    handle = started(site, raising(lambda: ValueError("at 0x7f01")))
    replayed = replay(site, handle, raising(lambda: ValueError("at 0x7f02")))
    assert (replayed.error, replayed.raised) == ("ValueError: at 0x7f01", "ValueError: at 0x7f02")


def test_another_task_that_fails_is_another_failure(site: Site) -> None:
    """G13: the recipe makes the same calls, and fails with the other one."""

    def failing(last: bool) -> RecipeDefinition[Any]:  # noqa: FBT001
        def body(run: Run) -> None:
            errors = []
            for text in ("a", "b"):
                try:
                    run.call(refuse, text)
                except TaskFailed as error:
                    errors.append(error)
            raise errors[-1 if last else 0]

        return named("fails", body)

    handle = started(site, failing(last=True))
    assert replay(site, handle, failing(last=True)).raised is None
    with pytest.raises(
        NonDeterministicRecipe, match=r"now raises task 0:refuse failed.*: task 1:refuse failed"
    ):
        replay(site, handle, failing(last=False))


def test_input_and_results_that_do_not_fit_are_told_from_what_the_recipe_raises(site: Site) -> None:
    @recipe(name="fits")
    def before(run: Run, n: int) -> int:
        return run.call(square, n)

    @recipe(name="fits")
    def asks_more(run: Run, n: int, k: int) -> int:
        return n

    @recipe(name="fits")
    def returns_other(run: Run, n: int) -> str:
        return n  # type: ignore[return-value]  # as careless code does

    handle = site.run(before, 2)
    with pytest.raises(RecipeMisfit, match=f"{handle.id}: its recorded input does not fit .* needs 'k'"):
        replay(site, handle, asks_more)
    with pytest.raises(RecipeMisfit, match=f"{handle.id}: what the recipe returns cannot be recorded: "):
        replay(site, handle, returns_other)


def test_a_result_that_the_code_does_not_take_any_more_is_a_change(site: Site) -> None:
    """G13: not data that cannot be read."""
    handle = started(site, chain)

    @task(name="one")
    def other_one(text: str) -> int:
        return 1

    with pytest.raises(
        NonDeterministicRecipe, match=r"0:one: the result of .* 'aone'.*Nothing is lost"
    ) as caught:
        replay(site, handle, named("chain", lambda run: run.call(other_one, "a")))
    assert caught.value.capability == "0:one"


def test_long_results_are_shortened_to_where_they_differ(site: Site) -> None:
    long = named("long", lambda run: ["x"] * 5000 + ["old"])
    handle = started(site, long)
    with pytest.raises(NonDeterministicRecipe) as caught:
        replay(site, handle, named("long", lambda run: ["x"] * 5000 + ["new", "x" * 5000]))
    assert len(str(caught.value)) < 700
    assert "'new', 'xxx" in str(caught.value)
    assert "'old']" in str(caught.value)


def test_the_order_of_keys_is_no_change(site: Site) -> None:
    handle = started(site, named("keys", lambda run: {"a": 1, "b": 2}))
    assert replay(site, handle, named("keys", lambda run: {"b": 2, "a": 1})).result == {"a": 1, "b": 2}


@pytest.mark.parametrize("raises", [False, True])
def test_a_recipe_that_swallows_everything_ends_there_all_the_same(site: Site, raises: bool) -> None:  # noqa: FBT001
    """G13: neither a miss nor a change can be caught and run on past."""

    def greedy(run: Run) -> str:
        try:
            return run.call(two)
        except:  # noqa: E722  # the point
            ran.append("swallowed")
        if raises:
            raise ValueError("and now this")
        return "went on"

    def careful(run: Run) -> str:
        try:
            return run.call(two)
        except Exception:  # noqa: BLE001  # as careless code does
            ran.append("caught")
            return "went on"

    handle = site.run(chain)
    with untouched(site), pytest.raises(ReplayCacheMiss, match="0:two"):
        site.client.replay(handle.id, recipe=named("chain", greedy))
    assert ran == ["swallowed"]
    site.slot(*TASKS, chain).drain()
    with pytest.raises(NonDeterministicRecipe, match="now asks for 0:two"):
        replay(site, handle, named("chain", careful))


def test_a_task_called_directly_does_not_run(site: Site) -> None:
    """G13: it would be the plain function otherwise."""
    handle = site.run(chain)
    with pytest.raises(DirectCall, match=r"run\.call\(one"):
        replay(site, handle, named("chain", lambda run: one("x")))


def test_calls_from_another_thread_are_refused(site: Site) -> None:
    def threaded(run: Run) -> str:
        with ThreadPoolExecutor(1) as pool:
            return pool.submit(run.call, one, "a").result()

    handle = site.run(chain)
    with pytest.raises(InvalidInput, match=r"another thread.*run\.map"):
        replay(site, handle, named("chain", threaded))


# -- observing -------------------------------------------------------------------------------------------


def test_an_observer_that_raises_ends_the_replay_with_its_own_error(site: Site) -> None:
    """G13: the recipe cannot catch it."""

    def careful(run: Run) -> str:
        try:
            return chain(run)
        except Exception:  # noqa: BLE001  # as careless code does
            return "went on"

    careful_chain = named("careful", careful)
    handle = started(site, careful_chain)
    seen: list[str] = []

    def observer(call: ReplayedCall) -> None:
        seen.append(call.capability)
        raise LookupError("that will do")

    with pytest.raises(LookupError, match="that will do"):
        replay(site, handle, careful_chain, observer)
    assert seen == ["0:one"]


def test_the_observer_is_told_what_went_in_and_what_came_out(site: Site) -> None:
    """G13: as plain data, and a list of each for a map."""

    def body(run: Run) -> None:
        run.call(one, "a")
        run.map(square, [1, 2])
        run.map(square, [])
        run.now()
        with contextlib.suppress(TaskFailed):
            run.call(refuse, text="no ink")

    watched = named("watched", body)
    handle = started(site, watched)
    calls: list[ReplayedCall] = []
    replay(site, handle, watched, calls.append)
    assert [(c.input, c.result) for c in calls if c.task != "now"] == [
        ({"text": "a"}, "aone"),
        ([{"n": 1}, {"n": 2}], [1, 4]),
        ([], []),
        ({"text": "no ink"}, None),
    ]
    (time,) = (c for c in calls if c.task == "now")
    assert (time.input, type(time.result)) == (None, datetime)


async def no_observer(call: ReplayedCall) -> None: ...


class AsyncObserver:
    async def __call__(self, call: ReplayedCall) -> None: ...

    def passed_on(self, call: ReplayedCall) -> object:
        return self(call)


@pytest.mark.parametrize(
    "observer",
    [no_observer, partial(no_observer), AsyncObserver(), AsyncObserver().passed_on, "print"],
)
def test_an_observer_that_would_do_nothing_is_refused(site: Site, observer: Any) -> None:
    """G13: a coroutine is not awaited."""
    handle = started(site, chain)
    with pytest.raises(InvalidInput, match=r"coroutine function would do nothing|'print' is no function"):
        replay(site, handle, chain, observer)


def test_the_demand_in_force_is_shown_by_layer(site: Site) -> None:
    """G13, G5: what was in force, and no slot is asked for it."""

    def body(run: Run) -> None:
        with run.needs(label={"zone": "eu"}):
            run.call(heavy, "", needs=Needs(cpu="1"))
            run.now()
        run.call(one)

    scoped = named("scoped", body)
    slot = site.slot(*TASKS, scoped, allocation=Allocation(memory="8Gi", cpu="2", label={"zone": "eu"}))
    handle = site.run(scoped, needs=Needs(cpu="2"))
    slot.drain()
    calls: list[ReplayedCall] = []

    replay(site, handle, scoped, calls.append)

    assert [c.demand.effective for c in calls] == [
        Needs(label={"zone": "eu"}, memory="4Gi", cpu="2"),
        Needs(label={"zone": "eu"}, cpu="2"),
        Needs(cpu="2"),
    ]
    assert calls[0].demand.sources() == {"label.zone": Layer.SCOPE, "memory": Layer.TASK, "cpu": Layer.JOB}


# -- suspensions -----------------------------------------------------------------------------------------

suspending = named("suspending", lambda run: [run.call(grow), run.call(one)])


def suspended(site: Site) -> Handle:
    """An execution whose first task has required more than its slot has."""
    handle = started(site, suspending, at=SMALL)
    assert set(handle.snapshot().checkpoints) == {"0:grow"}
    return handle


def forget_checkpoint(site: Site, handle: Handle) -> None:
    """As if its slot had died between the result and the yield."""
    key = site.store.keys("execution", INSTANCE, handle.id)
    site.redis.hdel(key, "checkpoints")
    site.redis.hset(key, "job_needs", "{}")


@pytest.mark.parametrize("accepted", [True, False])
def test_a_suspension_does_not_stop_a_replay(site: Site, accepted: bool) -> None:  # noqa: FBT001
    """G13: an accepted one is skipped; one that is not is in force from there on, and is not published."""
    handle = suspended(site)
    site.slot(*TASKS, suspending, allocation=BIG).drain()
    if not accepted:
        forget_checkpoint(site, handle)
    calls: list[ReplayedCall] = []

    assert replay(site, handle, suspending, calls.append).result == ["grown", "one"]

    assert [c.demand.job for c in calls] == [
        Needs(memory="4Gi") if accepted else Needs(),
        Needs(memory="4Gi"),
    ]


def test_another_directive_at_a_checkpoint_is_a_change(site: Site) -> None:
    handle = suspended(site)
    assert missed(site, handle, suspending) == ("1:one", TASK)
    site.edit_record(handle, "0:grow", directive='{"memory":"2Gi"}')
    with pytest.raises(NonDeterministicRecipe, match="0:grow now suspends for"):
        replay(site, handle, suspending)


# -- what cannot be read ---------------------------------------------------------------------------------


def test_what_cannot_be_read_is_an_error_that_keeps_the_bytes(site: Site) -> None:
    """G13, G17: a directive, a result, the input, and a key of another type."""
    handle = suspended(site)

    def refused(message: str) -> None:
        with pytest.raises(Malformed, match=f"execution {handle.id}.*{message}"):
            replay(site, handle, suspending)

    forget_checkpoint(site, handle)
    for field in ("ordinal", "hash", "status"):
        kept = site.record(handle, "0:grow")[field]
        site.edit_record(handle, "0:grow", **{field: None})
        refused(f"the record of 0:grow cannot be read .it has no '{field}'")
        site.edit_record(handle, "0:grow", **{field: kept})
    site.edit_record(handle, "0:grow", directive="memory")
    refused("the requirements of 0:grow")
    site.edit_record(handle, "0:grow", directive='{"memory":"4Gi"}')
    site.redis.hset(site.store.keys("results", INSTANCE, handle.id), "0:grow", b"\x01\xc1")
    refused("0:grow: the stored data cannot be read")
    site.redis.hset(site.store.keys("params", INSTANCE, handle.id), "recipe", b"\x02\x80")
    refused("its input: .*schema version 2")
    site.redis.delete(site.store.keys("records", INSTANCE, handle.id))
    site.redis.set(site.store.keys("records", INSTANCE, handle.id), "x")
    refused("cannot be read")


def test_a_record_that_does_not_say_how_its_execution_ended(site: Site) -> None:
    """G17: it is asked where the recipe comes to another end."""
    handle = started(site, named("failing", lambda run: run.call(refuse, "no ink")))
    site.edit_record(handle, "recipe", crashes=None)
    with pytest.raises(Malformed, match=f"execution {handle.id}: a record cannot be read .*crashes"):
        replay(site, handle, named("failing", lambda run: run.call(refuse, "no ink")))
