"""One suite for both stores of the model; then what only the one in Redis has: leases, and the engine."""

from __future__ import annotations

import random
import threading
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from typing import Any

import pytest

from tenure import Client, Run, TaskFailed, recipe, task
from tenure.engine.definitions import Definitions
from tenure.errors import (
    ExecutionExists,
    ExecutionNotFound,
    IllegalTransition,
    InvalidInput,
    LeaseLost,
    Malformed,
    PayloadTooLarge,
)
from tenure.model.blueprint import ExecutionBlueprint
from tenure.model.creation import new_detached_task, new_execution
from tenure.model.data import decode
from tenure.model.execution import Execution
from tenure.model.snapshot import CapabilityExecutionState
from tenure.model.status import CapabilityStatus, ExecutionStatus
from tenure.store.execution_store import ExecutionStore
from tenure.store.keys import RECIPE
from tenure.store.memory import MemoryStore
from tests.harness import working_slot
from tests.invariants import broken
from tests.store.facade import facade
from tests.store.stage import INSTANCE, Stage

BOOK = ExecutionBlueprint("book", ("draw", "print", "bind"))

AnyStore = ExecutionStore | MemoryStore


@pytest.fixture(params=["memory", "redis"])
def store(request: pytest.FixtureRequest) -> AnyStore:
    if request.param == "memory":
        return MemoryStore()
    return facade(request.getfixturevalue("stage"))


def book(execution_id: str = "book-7", instance: str = INSTANCE) -> Execution:
    return new_execution(BOOK, "order-9", instance, execution_id=execution_id)


def begun(execution_id: str = "book-7") -> Execution:
    execution = book(execution_id)
    execution.start({"pages": [1, 2]}, 2)
    execution.mark_capability_ready("draw", {"page": 1})
    return execution


def stored(store: AnyStore, execution_id: str = "book-7") -> Execution:
    found = store.get(execution_id)
    assert found is not None
    return found


def draw(execution: Execution, output: Any = None) -> None:
    execution.mark_capability_running("draw")
    execution.mark_capability_completed("draw", {"ink": 5} if output is None else output)


# --- both stores ---


def test_what_is_added_reads_back(store: AnyStore) -> None:
    execution = book()
    store.add(execution)

    again = stored(store)

    assert again.snapshot() == execution.snapshot()
    assert again.blueprint == BOOK
    assert again is not execution


def test_nobody_is_found_under_an_unknown_id(store: AnyStore) -> None:
    assert store.get("nobody") is None
    assert store.delete("nobody") is False
    assert store.list() == []
    assert store.list_by_instance(INSTANCE) == []
    with pytest.raises(InvalidInput, match="no execution id"):
        store.get("*")


def test_an_id_is_added_once(store: AnyStore) -> None:
    execution = book()
    store.add(execution)
    execution.start({}, 1)

    for again in (execution, book()):
        with pytest.raises(ExecutionExists, match="book-7 is stored already"):
            store.add(again)
    assert stored(store).status == "pending"


def test_saving_inserts_what_is_not_there(store: AnyStore) -> None:
    """Seed 002: a recovering process saves what it has read elsewhere."""
    execution = begun()
    store.save(execution)
    assert stored(store).snapshot() == execution.snapshot()


def test_only_what_is_saved_is_seen(store: AnyStore) -> None:
    execution = book()
    store.add(execution)
    execution.start({"pages": 1}, 1)
    stored(store).mark_cancelled("nobody hears of it")

    assert stored(store).status == "pending"
    store.save(execution)
    assert stored(store).status == "running"


def every_step() -> Iterator[Callable[[Execution], object]]:
    yield lambda e: e.start({"pages": [1]}, 3)
    yield lambda e: e.mark_capability_ready("draw", {"page": 1})
    yield lambda e: e.mark_capability_running("draw")
    yield lambda e: e.mark_capability_completed("draw", [1, None, "é", b"\xff"])
    yield lambda e: e.complete_current_and_schedule(2)
    yield lambda e: e.mark_capability_ready("print", {})
    yield lambda e: e.mark_capability_detached("print")
    yield lambda e: e.mark_capability_failed("bind", "no glue")
    yield lambda e: e.complete_current_and_schedule(0)


@pytest.mark.parametrize("end", ["completed", "failed", "cancelled"])
def test_every_step_reads_back_as_it_was_saved(store: AnyStore, end: str) -> None:
    execution = book()
    store.add(execution)
    last: Callable[[Execution], object] = {
        "completed": lambda e: e.mark_completed(),
        "failed": lambda e: e.mark_failed("it broke"),
        "cancelled": lambda e: e.mark_cancelled("enough"),
    }[end]
    for step in [*every_step(), last]:
        step(execution)
        store.save(execution)
        store.save(execution)
        assert stored(store).snapshot() == execution.snapshot()
    assert stored(store).done.is_set()


def test_many_steps_may_be_saved_at_once(store: AnyStore) -> None:
    execution = book()
    store.add(execution)
    for step in every_step():
        step(execution)
    execution.mark_cancelled("enough")

    store.save(execution)

    assert stored(store).snapshot() == execution.snapshot()


def test_a_detached_task_knows_its_parent(store: AnyStore) -> None:
    task_ = new_detached_task(ExecutionBlueprint("print", ("print",)), "order-9", INSTANCE, "book-7")
    store.add(task_)
    assert stored(store, task_.id).parent_execution_id == "book-7"


def test_executions_are_listed_by_instance(store: AnyStore) -> None:
    for name, instance in (("a", "press"), ("b", "shop"), ("c", "press")):
        store.add(book(name, instance))
    ended = stored(store, "c")
    ended.mark_cancelled("enough")
    store.save(ended)

    assert sorted(one.id for one in store.list()) == ["a", "b", "c"]
    assert sorted(one.id for one in store.list_by_instance("press")) == ["a", "c"]
    assert [one.id for one in store.list_by_instance("shop")] == ["b"]
    assert store.list_by_instance("nobody") == []


def test_a_deleted_execution_leaves_a_tombstone(store: AnyStore) -> None:
    """G4: nothing that anybody still holds brings it back."""
    execution = begun()
    store.add(execution)

    assert store.delete("book-7") is True
    assert store.delete("book-7") is False

    assert store.get("book-7") is None
    assert store.list() == []
    with pytest.raises(ExecutionExists, match="book-7 was deleted"):
        store.add(execution)
    with pytest.raises(ExecutionNotFound, match="book-7 was deleted"):
        store.save(execution)
    assert store.get("book-7") is None


def test_a_recorded_result_is_never_altered(store: AnyStore) -> None:
    """G4."""
    execution, other = begun(), begun()
    store.add(execution)
    draw(execution)
    store.save(execution)

    for output in ({"ink": 6}, {"ink": 5.0}, None, 0):
        other = stored(store)
        other.restore(replace(other.snapshot(), results={"draw": output}))
        with pytest.raises(IllegalTransition, match=r"draw.*never altered"):
            store.save(other)
    assert stored(store).result("draw") == {"ink": 5}
    assert stored(store).snapshot() == execution.snapshot()


def test_what_was_given_is_never_altered(store: AnyStore) -> None:
    """G4."""
    execution = begun()
    store.add(execution)
    other = stored(store)
    other.restore(replace(other.snapshot(), params={"draw": {"page": 2}}))
    with pytest.raises(IllegalTransition, match=r"draw.*never altered"):
        store.save(other)
    other.restore(replace(execution.snapshot(), initial_params={}))
    with pytest.raises(IllegalTransition, match="never altered"):
        store.save(other)
    assert stored(store).snapshot() == execution.snapshot()


def test_who_is_behind_learns_that_it_moved_on(store: AnyStore) -> None:
    """G14: a late save overwrites nothing."""
    execution = begun()
    store.add(execution)
    behind, elsewhere = stored(store), stored(store)
    draw(execution)
    store.save(execution)

    with pytest.raises(
        IllegalTransition, match=r"draw.* is stored as completed and cannot be saved as ready"
    ):
        store.save(behind)
    elsewhere.mark_capability_failed("draw", "late")
    with pytest.raises(
        IllegalTransition, match=r"draw.* is stored as completed and cannot be saved as failed"
    ):
        store.save(elsewhere)
    execution.mark_cancelled("enough")
    store.save(execution)
    behind.mark_failed("late")
    with pytest.raises(IllegalTransition, match="is stored as cancelled and cannot be saved as failed"):
        store.save(behind)
    assert stored(store).snapshot() == execution.snapshot()


def test_an_ended_execution_takes_no_more_outcomes(store: AnyStore) -> None:
    execution = begun()
    execution.mark_failed("it broke")
    store.add(execution)
    other = stored(store)
    late = CapabilityExecutionState(status=CapabilityStatus.FAILED, error="late")
    other.restore(replace(other.snapshot(), states={**other.snapshot().states, "print": late}))

    with pytest.raises(IllegalTransition, match="print"):
        store.save(other)
    assert stored(store).snapshot() == execution.snapshot()


def test_another_execution_of_the_same_id_is_refused(store: AnyStore) -> None:
    store.add(book())
    for other in (
        new_execution(BOOK, "another", INSTANCE, execution_id="book-7"),
        new_execution(ExecutionBlueprint("book", ("draw",)), "order-9", INSTANCE, execution_id="book-7"),
        new_execution(
            ExecutionBlueprint("map", BOOK.capabilities), "order-9", INSTANCE, execution_id="book-7"
        ),
        new_detached_task(BOOK, "order-9", INSTANCE, "parent", execution_id="book-7"),
    ):
        with pytest.raises(ExecutionExists, match="exists already with another"):
            store.save(other)
    assert stored(store).snapshot() == book().snapshot()


def test_nothing_is_leased_so_any_token_is_stale(store: AnyStore) -> None:
    """G2."""
    execution = begun()
    with pytest.raises(LeaseLost, match="book-7"):
        store.save(execution, token=1)
    assert store.get("book-7") is None
    store.add(execution)
    draw(execution)
    with pytest.raises(LeaseLost, match="book-7"):
        store.save(execution, token=1)
    assert stored(store).capability_state("draw").status == "ready"


def test_of_threads_that_save_together_one_wins_and_nothing_is_torn(store: AnyStore) -> None:
    """G4: each would record another result; one is recorded, with what belongs to it."""
    for n in range(10):
        name = f"e{n}"
        store.add(begun(name))
        begin = threading.Barrier(4)

        def run(number: int, name: str = name, begin: threading.Barrier = begin) -> bool:
            execution = stored(store, name)
            draw(execution, number)
            execution.mark_failed(str(number))
            begin.wait(30)
            try:
                store.save(execution)
            except IllegalTransition:
                return False
            return True

        with ThreadPoolExecutor(4) as threads:
            won = [number for number, wins in enumerate(threads.map(run, range(4))) if wins]

        assert len(won) == 1
        found = stored(store, name)
        assert (found.result("draw"), found.error) == (won[0], str(won[0]))


@pytest.mark.parametrize("seed", range(20))
def test_both_stores_agree_on_whatever_is_saved(seed: int, stage: Stage) -> None:
    """The rules are in Lua for the one and in Python for the other; a random walk holds them together."""
    chance = random.Random(seed)
    stores: tuple[AnyStore, ...] = (MemoryStore(), facade(stage))
    held = [book() for _ in range(3)]
    for _ in range(60):
        execution = chance.choice(held)
        if chance.random() < 0.2 and (found := stores[0].get("book-7")) is not None:
            execution.restore(found.snapshot())
        for _ in range(chance.randint(1, 4)):
            _move(execution, chance)
        answers = [_answer_to_save(store, execution) for store in stores]
        assert answers[0] == answers[1]
        kept = [store.get("book-7") for store in stores]
        assert [one and one.snapshot() for one in kept[:1]] == [one and one.snapshot() for one in kept[1:]]


def _move(execution: Execution, chance: random.Random) -> None:
    name = chance.choice(BOOK.capabilities)
    value = chance.randint(0, 1)
    moves: dict[Callable[[], object], int] = {
        lambda: execution.start({"v": value}, 2): 4,
        lambda: execution.mark_capability_ready(name, {"v": value}): 8,
        lambda: execution.mark_capability_running(name): 8,
        lambda: execution.mark_capability_completed(name, value): 8,
        lambda: execution.mark_capability_detached(name): 1,
        lambda: execution.mark_capability_skipped(name): 1,
        lambda: execution.mark_capability_failed(name, "it broke"): 1,
        lambda: execution.mark_capability_cancelled(name, "enough"): 1,
        lambda: execution.complete_current_and_schedule(2): 1,
        lambda: chance.random() < 0.1 and execution.mark_failed("it broke"): 1,
        lambda: chance.random() < 0.1 and execution.mark_completed(): 1,
    }
    try:
        chance.choices(list(moves), list(moves.values()))[0]()
    except IllegalTransition:
        return


def _answer_to_save(store: AnyStore, execution: Execution) -> str:
    try:
        store.save(execution)
    except (IllegalTransition, ExecutionExists) as error:
        return type(error).__name__
    return "saved"


# --- one instance, and all of them ---


def test_a_store_for_one_instance_neither_sees_nor_touches_another(stage: Stage) -> None:
    press, shop, everywhere = facade(stage, "press"), facade(stage, "shop"), facade(stage)
    press.add(book("a", "press"))
    shop.add(book("b", "shop"))

    assert press.get("b") is None
    assert press.delete("b") is False
    assert [one.id for one in press.list()] == ["a"]
    assert press.list_by_instance("shop") == []
    assert [one.id for one in press.list_by_instance("press")] == ["a"]
    for act in (press.add, press.save):
        with pytest.raises(InvalidInput, match="belongs to instance shop"):
            act(book("c", "shop"))
    assert sorted(one.id for one in everywhere.list()) == ["a", "b"]


def test_an_id_that_two_instances_have_is_ambiguous_for_all_and_not_for_each(stage: Stage) -> None:
    for instance in ("press", "shop"):
        facade(stage, instance).add(book("a", instance))

    with pytest.raises(InvalidInput, match="instances press, shop each have an execution a"):
        facade(stage).get("a")
    assert stored(facade(stage, "shop"), "a").instance_id == "shop"


# --- the keys are the engine's ---


@task
def ink(page: int) -> dict[str, int]:
    if page == 13:
        raise ValueError("no thirteenth page")
    return {"page": page, "ink": page * 2}


@recipe(name="volume", version="1")
def volume(run: Run, pages: int) -> int:
    first = run.call(ink, 1)
    every = run.map(ink, list(range(pages)))
    try:
        run.call(ink, 13)
    except TaskFailed:
        return int(first["ink"]) + len(every)
    return 0


def test_an_execution_that_the_engine_ran_reads_back_truly(stage: Stage) -> None:
    """It is the same model: every outcome, time and payload that the engine recorded, and its counts."""
    slot = working_slot(stage.store, Definitions.of([volume, ink]))
    client = Client(store=stage.store)
    handle = client.start(volume, 2, id="vol-1", correlation_id="order-9")
    store = facade(stage)

    waiting = stored(store, "vol-1")
    assert (waiting.status, waiting.in_flight, waiting.initial_params()) == ("pending", 1, {"pages": 2})
    slot.drain()
    assert handle.result(30) == 4

    found, kept = stored(store, "vol-1"), handle.snapshot()
    assert (found.status, found.in_flight, found.done.is_set()) == ("completed", 0, True)
    assert (found.correlation_id, found.instance_id, found.parent_execution_id) == ("order-9", INSTANCE, "")
    assert (found.started_at, found.completed_at) == (kept.started_at, kept.completed_at)
    assert found.blueprint == ExecutionBlueprint("volume", ("0:ink", "1:ink:0", "1:ink:1", "2:ink"))
    assert found.params("1:ink:1") == {"page": 1}
    assert found.results() == {
        "0:ink": {"page": 1, "ink": 2},
        "1:ink:0": {"page": 0, "ink": 0},
        "1:ink:1": {"page": 1, "ink": 2},
        RECIPE: 4,
    }
    for name in found.blueprint.capabilities:
        state, record = found.capability_state(name), kept.records[name]
        assert state.status == record["status"]
        assert state.error == (record.get("error") or "")
        assert state.started_at is not None
        assert state.started_at.timestamp() * 1000 == pytest.approx(record["started_at"], abs=0.1)
        assert state.completed_at is not None
        assert state.completed_at.timestamp() * 1000 == pytest.approx(record["completed_at"], abs=0.1)
    assert "no thirteenth page" in found.capability_state("2:ink").error
    found.wait(0)

    before = stage.dump()
    store.save(found)
    assert stage.dump() == before
    with pytest.raises(ExecutionExists):
        store.add(found)
    assert [one.id for one in store.list()] == ["vol-1"]


def test_what_is_saved_is_shaped_as_what_the_engine_stores(stage: Stage) -> None:
    """The client, and whatever else reads the engine's keys, reads it too."""
    execution = begun()
    facade(stage).add(execution)
    draw(execution)
    execution.mark_capability_ready("print", {})
    execution.mark_cancelled("enough")
    facade(stage).save(execution)

    kept = stage.stored("book-7")
    assert (kept.status, kept.recipe, kept.correlation, kept.error) == (
        "cancelled",
        "book",
        "order-9",
        "enough",
    )
    assert (kept.started_at, kept.completed_at) == (execution.started_at, execution.completed_at)
    statuses = {name: record["status"] for name, record in kept.records.items()}
    assert statuses == {"draw": "completed", "print": "cancelled", "bind": "cancelled"}
    raw = stage.store.executions.result(INSTANCE, "book-7", "draw")
    assert raw is not None
    assert decode(raw, where="it") == {"ink": 5}
    assert [one.id for one in Client(store=stage.store).list()] == ["book-7"]
    kinds = [(event.kind, event.capability) for event in stage.events("book-7")]
    assert kinds == [
        ("created", None),
        ("execution_running", None),
        ("ready", "draw"),
        ("execution_cancelled", None),
        ("completed", "draw"),
        ("cancelled", "print"),
        ("cancelled", "bind"),
    ]
    assert broken(stage.store) == []


def test_no_event_is_written_for_what_changes_nothing(stage: Stage) -> None:
    """G14: a late report appends no event."""
    execution = begun()
    facade(stage).add(execution)
    execution.mark_cancelled("enough")
    facade(stage).save(execution)
    before = stage.dump()

    assert not execution.mark_capability_failed("draw", "late")
    facade(stage).save(execution)

    assert stage.dump() == before


def test_duties_leave_alone_what_no_worker_runs(stage: Stage) -> None:
    facade(stage).add(begun())
    before, leader = stage.dump(), stage.lead()

    assert stage.store.duties.repair(leader, f"{INSTANCE}/book-7", lease=stage.store.settings.lease) == []

    after = stage.dump()
    assert {key: after[key] for key in before} == before


def test_a_recipe_is_not_started_under_its_id(stage: Stage) -> None:
    facade(stage).add(book("volume-1"))
    with pytest.raises(ExecutionExists):
        Client(store=stage.store).start(volume, 2, id="volume-1")


def test_a_payload_over_the_limit_is_refused_before_anything_is_stored(stage: Stage) -> None:
    execution = book()
    execution.start({"pages": "x" * 2000}, 1)
    with pytest.raises(PayloadTooLarge, match="book-7: its input"):
        facade(stage).add(execution)
    assert facade(stage).list() == []


def test_what_cannot_be_read_is_an_error_and_left_out_of_lists(
    stage: Stage, caplog: pytest.LogCaptureFixture
) -> None:
    """G17: the bytes stay, and the others can be seen."""
    store = facade(stage)
    for name in ("good", "bad"):
        store.add(begun(name))
    stage.client.hset(stage.store.keys("records", INSTANCE, "bad"), "draw", b"\xc1")
    execution = begun("bad")
    execution.mark_cancelled("enough")
    before = stage.dump()

    with pytest.raises(Malformed, match="execution bad"):
        store.get("bad")
    with pytest.raises(Malformed, match="execution bad"):
        store.save(execution)
    assert [one.id for one in store.list()] == ["good"]
    assert "execution bad" in caplog.text
    assert stage.dump() == before

    stage.client.hset(stage.store.keys("execution", INSTANCE, "bad"), "schema", 99)
    with pytest.raises(Malformed, match="newer Tenure"):
        store.get("bad")
    with pytest.raises(Malformed, match="execution bad"):
        store.save(execution)


def test_a_status_that_nobody_knows_is_malformed(stage: Stage) -> None:
    """G17."""
    facade(stage).add(begun())
    stage.client.hset(stage.store.keys("execution", INSTANCE, "book-7"), "status", "asleep")
    execution = begun()
    execution.mark_cancelled("enough")
    with pytest.raises(Malformed, match="book-7"):
        facade(stage).save(execution)


# --- what slots hold ---


def test_what_the_recipe_holds_is_ended_with_its_token_only(stage: Stage) -> None:
    """G2, G6."""
    _, grant = stage.recipe_leased()
    store = facade(stage)
    execution = stored(store, "e")
    execution.mark_cancelled("enough")
    before = stage.dump()

    for token in (None, grant.token - 1, 1):
        with pytest.raises(LeaseLost, match="execution e"):
            store.save(execution, token=token)
    assert stage.dump() == before
    store.save(execution, token=grant.token)

    found = stored(store, "e")
    assert (found.status, found.error, found.in_flight) == ("cancelled", "enough", 0)
    assert broken(stage.store) == []
    with pytest.raises(LeaseLost):
        stage.advance(stage.slot(), grant, "hold")


def test_the_result_of_what_a_slot_runs_is_saved_with_its_token(stage: Stage) -> None:
    """G2, G4: it is recorded as if the slot had reported it, and the recipe goes on."""
    slot, grant = stage.task_leased()
    store = facade(stage)
    execution = stored(store, "e")
    assert execution.params("0:draw") == {}
    assert execution.in_flight == 2
    execution.mark_capability_completed("0:draw", {"ink": 5})

    with pytest.raises(LeaseLost):
        store.save(execution)
    store.save(execution, token=grant.token)
    store.save(execution)

    found = stored(store, "e")
    assert found.result("0:draw") == {"ink": 5}
    assert found.in_flight == 1
    assert stage.record()["where"] == "waiting"
    assert broken(stage.store) == []
    with pytest.raises(LeaseLost):
        stage.settle(slot, grant)
    other = stored(store, "e")
    other.restore(replace(other.snapshot(), results={"0:draw": {"ink": 6}}))
    with pytest.raises(IllegalTransition, match="never altered"):
        store.save(other)


def test_what_no_slot_holds_needs_no_token(stage: Stage) -> None:
    slot, recipe_grant = stage.recipe_leased()
    stage.suspend(slot, recipe_grant, stage.spec(0))
    store = facade(stage)
    execution = stored(store, "e")
    execution.mark_capability_running("0:draw")
    execution.mark_capability_completed("0:draw", {"ink": 5})

    with pytest.raises(LeaseLost):
        store.save(execution, token=recipe_grant.token)
    store.save(execution)

    assert stored(store, "e").result("0:draw") == {"ink": 5}
    assert stage.record()["where"] == "waiting"
    assert broken(stage.store) == []


def test_an_execution_that_waits_is_ended_by_saving_it(stage: Stage) -> None:
    stage.register()
    stage.start()
    store = facade(stage)
    execution = stored(store, "e")
    execution.mark_failed("it broke")

    store.save(execution)

    assert (stage.stored().status, stage.stored().error) == ("failed", "it broke")
    assert stage.flight() == set()
    assert broken(stage.store) == []
    assert stage.slot().claim() is None


def test_an_end_closes_a_map_without_opening_more_of_it(stage: Stage) -> None:
    slot, recipe_grant = stage.recipe_leased()
    stage.open_map(slot, recipe_grant, 5)
    store = facade(stage)
    execution = stored(store, "e")
    execution.mark_cancelled("enough")

    store.save(execution)

    statuses = {name: state.status for name, state in stored(store, "e").snapshot().states.items()}
    assert statuses == {"0:draw:0": "cancelled", "0:draw:1": "cancelled"}
    assert broken(stage.store) == []


def test_outcomes_and_the_end_may_come_together(stage: Stage) -> None:
    slot, recipe_grant = stage.recipe_leased()
    stage.open_map(slot, recipe_grant, 5)
    store = facade(stage)
    execution = stored(store, "e")
    execution.mark_capability_failed("0:draw:0", "it broke")
    execution.mark_failed("0:draw:0 broke")

    store.save(execution)

    found = stored(store, "e")
    assert found.status == "failed"
    assert found.capability_state("0:draw:0").error == "it broke"
    assert found.capability_state("0:draw:1").status == "cancelled"
    assert broken(stage.store) == []


def test_what_may_have_had_its_effect_is_not_ended_or_forgotten(stage: Stage) -> None:
    """G6, G7: a charge that has begun is settled first."""
    _, grant = stage.task_leased(effects="once")
    store = facade(stage)
    execution = stored(store, "e")
    execution.mark_cancelled("enough")
    before = stage.dump()

    with pytest.raises(IllegalTransition, match="0:draw has begun and may have had its effect"):
        store.save(execution, token=grant.token)
    with pytest.raises(IllegalTransition, match="0:draw has begun and may have had its effect"):
        store.delete("e")
    assert stage.dump() == before

    execution = stored(store, "e")
    execution.mark_capability_completed("0:draw", {"ink": 5})
    store.save(execution, token=grant.token)
    assert stored(store, "e").result("0:draw") == {"ink": 5}
    assert store.delete("e") is True


def test_each_lease_guards_its_own(stage: Stage) -> None:
    """G2: no slot saves over what another holds, and while anything is held nobody saves without a lease."""
    slot, recipe_grant = stage.recipe_leased()
    group = stage.group(stage.spec(1), size=2, window=2)
    awaits = {"capability": "0:draw"}
    stage.advance(slot, recipe_grant, "suspend", open=stage.spec(0), group=group, awaits=awaits)
    stage.settle(slot, stage.claim(slot))
    grants = {grant.capability: grant for grant in [stage.claim(slot) for _ in range(3)]}
    member, other = "1:draw:0", "1:draw:1"
    slot.reschedule(grants[other], reason="drain")
    held = {name: grants[name].token for name in (RECIPE, member)}
    store = facade(stage)
    before = stage.dump()

    ended = stored(store, "e")
    ended.mark_failed("it broke")
    settled = stored(store, "e")
    settled.mark_capability_failed(member, "it broke")
    waiting = stored(store, "e")
    waiting.mark_capability_cancelled(other, "enough")
    for execution, token in (
        (ended, held[member]),
        (ended, None),
        (settled, held[RECIPE]),
        (settled, None),
        (waiting, None),
        (waiting, held[RECIPE] + 999),
    ):
        with pytest.raises(LeaseLost):
            store.save(execution, token=token)
    # What changes nothing needs nothing.
    store.save(stored(store, "e"))
    assert stage.dump() == before

    store.save(waiting, token=held[RECIPE])
    store.save(stored(store, "e"), token=held[RECIPE])
    assert stored(store, "e").capability_state(other).status == "cancelled"
    assert broken(stage.store) == []


def test_who_knows_of_no_charge_cannot_end_it_either(stage: Stage) -> None:
    """G6: what is held is of before the charge began."""
    slot, recipe_grant = stage.recipe_leased()
    store = facade(stage)
    execution = stored(store, "e")
    stage.suspend(slot, recipe_grant, stage.spec(0, effects="once"))
    grant = stage.claim(slot)
    slot.mark_started(grant)
    execution.mark_failed("it broke")

    with pytest.raises(IllegalTransition, match="0:draw has begun"):
        store.save(execution, token=grant.token)
    assert stage.stored().status == "running"


def test_the_first_reason_to_end_stays(stage: Stage) -> None:
    """G14: the end waits for a task that runs, and is decided."""
    _, grant = stage.task_leased()
    stage.store.executions.cancel(INSTANCE, "e", reason="enough", nonce="n")
    store = facade(stage)
    execution = stored(store, "e")
    execution.mark_failed("late")

    with pytest.raises(IllegalTransition, match="cannot be saved as failed"):
        store.save(execution, token=grant.token)
    execution = stored(store, "e")
    execution.mark_capability_completed("0:draw", {"ink": 5})
    store.save(execution, token=grant.token)

    found = stored(store, "e")
    assert (found.status, found.error, found.result("0:draw")) == ("cancelled", "enough", {"ink": 5})
    assert broken(stage.store) == []


@pytest.mark.parametrize("how", ["add", "save"])
def test_a_resend_gets_the_first_answer_whatever_came_between(
    stage: Stage, monkeypatch: pytest.MonkeyPatch, how: str
) -> None:
    """G16: the lease that the first copy ended, or the id that it took, is no reason to refuse the second."""
    _, grant = stage.recipe_leased()
    store, real = facade(stage), stage.store.scripts.call
    replies: list[tuple[Mapping[str, Any], Mapping[str, Any]]] = []

    def twice(name: str, arguments: Mapping[str, Any]) -> dict[str, Any]:
        first = real(name, arguments)
        if arguments.get("insert"):
            moved = begun()
            monkeypatch.undo()
            store.save(moved)
        replies.append((first, real(name, arguments)))
        return first

    execution = stored(store, "e")
    execution.mark_cancelled("enough")
    monkeypatch.setattr(stage.store.scripts, "call", twice)
    if how == "add":
        store.add(book())
    else:
        store.save(execution, token=grant.token)

    ((first, second),) = replies
    assert first == second == {"answer": "saved"}
    assert broken(stage.store) == [] or how == "add"


ENGINES_OWN: dict[str, Callable[[Execution], object]] = {
    "completed": lambda e: e.mark_completed(),
    "running": lambda e: e.mark_capability_running("0:draw"),
    "detached": lambda e: e.mark_capability_detached("0:draw"),
}


@pytest.mark.parametrize("name", ENGINES_OWN)
def test_what_only_running_it_can_bring_is_refused(stage: Stage, name: str) -> None:
    slot, recipe_grant = stage.recipe_leased()
    stage.suspend(slot, recipe_grant, stage.spec(0))
    store = facade(stage)
    execution = stored(store, "e")
    ENGINES_OWN[name](execution)
    before = stage.dump()

    with pytest.raises(IllegalTransition, match=f"is run by the engine, which alone makes it {name}"):
        store.save(execution)
    assert stage.dump() == before


def test_a_timer_is_ended_with_its_execution_only(stage: Stage) -> None:
    """What it will bring is stored when it begins, and is no result before it is over."""

    @recipe(name="nap", version="1")
    def nap(run: Run) -> None:
        run.sleep(3600)

    slot = working_slot(stage.store, Definitions.of([nap]))
    Client(store=stage.store).start(nap, id="nap-1")
    slot.drain()
    store = facade(stage)
    execution = stored(store, "nap-1")
    (timer,) = execution.snapshot().states
    assert (execution.capability_state(timer).status, execution.results()) == ("running", {})

    execution.mark_capability_cancelled(timer, "enough")
    with pytest.raises(IllegalTransition, match="run by the engine"):
        store.save(execution)
    execution = stored(store, "nap-1")
    execution.mark_cancelled("enough")
    store.save(execution)

    assert stored(store, "nap-1").capability_state(timer).status == "cancelled"
    assert broken(stage.store) == []


def test_deleting_takes_everything_and_voids_the_leases(stage: Stage) -> None:
    """G4: what a slot still does for it changes nothing any more."""
    slot, recipe_grant = stage.recipe_leased()
    stage.open_map(slot, recipe_grant, 3)
    grant = stage.claim(slot)
    slot.mark_started(grant)
    keys = stage.store.keys

    assert facade(stage).delete("e") is True

    left = [raw.decode() for raw in stage.client.scan_iter(f"{stage.store.namespace}:*") if b"/e/" in raw]
    assert left == []
    assert not list(stage.client.scan_iter(f"{keys('execution', INSTANCE, 'e')}*"))
    assert 0 < stage.client.pttl(keys("tombstone", INSTANCE, "e")) <= 86_400_000
    assert broken(stage.store) == []
    with pytest.raises(LeaseLost):
        stage.settle(slot, grant)
    assert slot.claim() is None
    with pytest.raises(ExecutionNotFound):
        Client(store=stage.store).get("e").wait(5)
    assert not list(stage.client.scan_iter(f"{keys('execution', INSTANCE, 'e')}*"))


def test_whoever_waits_for_a_deleted_execution_learns_it_at_once(stage: Stage) -> None:
    stage.start()
    cursor = stage.store.events.cursor()
    with ThreadPoolExecutor(1) as threads:
        waiting = threads.submit(stage.store.events.wait, INSTANCE, "e", cursor, seconds=30)
        facade(stage).delete("e")
        assert waiting.result(10)[1] is True


def test_statuses_of_both_kinds_are_those_of_the_tables(stage: Stage) -> None:
    """What is read is of the closed kinds, never a bare string."""
    facade(stage).add(begun())
    snapshot = stored(facade(stage)).snapshot()
    assert type(snapshot.status) is ExecutionStatus
    assert {type(state.status) for state in snapshot.states.values()} == {CapabilityStatus}
