"""What is recorded is written once, and nothing brings a deleted execution back (G4)."""

from __future__ import annotations

import pytest
import redis

from tenure.errors import LeaseLost
from tenure.store.answers import StartAnswer
from tenure.store.sessions import Renewed
from tests.store.stage import INSTANCE, Stage
from tests.store.writes import TASK_WRITES, dump_of_data, take_over


def test_a_recorded_result_never_changes(stage: Stage) -> None:
    """G4: neither the same slot nor another can record a second outcome."""
    slot, grant = stage.task_leased()
    stage.settle(slot, grant, result=b"\x01first")
    before = dump_of_data(stage)

    for status in ("completed", "failed", "cancelled"):
        with pytest.raises(LeaseLost):
            stage.settle(slot, grant, status)

    assert stage.store.executions.result(INSTANCE, "e", "0:draw") == b"\x01first"
    assert dump_of_data(stage) == before


def test_a_result_that_is_there_survives_a_record_that_was_rolled_back(stage: Stage) -> None:
    """G4: even where a failover has kept the result and lost the record that said so."""
    slot, grant = stage.task_leased()
    stage.client.hset(stage.store.keys("results", INSTANCE, "e"), grant.capability, b"\x01first")

    stage.settle(slot, grant, result=b"\x01second")

    assert stage.store.executions.result(INSTANCE, "e", "0:draw") == b"\x01first"


def test_a_result_whose_start_mark_a_failover_lost_is_taken_from_who_holds_the_token(stage: Stage) -> None:
    """G2: the token decides. The record goes through `running` all the same, as the table of moves says."""
    slot, grant = stage.task_leased(started=False)

    stage.settle(slot, grant)

    assert stage.record("e", grant.capability)["status"] == "completed"


def test_a_status_that_no_table_knows_is_refused_whole(stage: Stage) -> None:
    """G4: and scripts validate before they write."""
    slot, grant = stage.task_leased()
    before = dump_of_data(stage)

    with pytest.raises(redis.ResponseError, match="cannot go from running to skipped"):
        stage.settle(slot, grant, status="skipped")

    assert dump_of_data(stage) == before


def test_a_retry_is_a_later_record(stage: Stage) -> None:
    """G4: attempts are appended, each with its cause, its slot and its token; none is rewritten."""
    slot, grant = stage.task_leased()
    for n in range(3):
        slot.retry(grant, error=f"error {n}", error_type="E", delay_ms=0, in_place_ms=999, claim=False)

    attempts = stage.stored().attempts
    assert [(a["attempt"], a["cause"], a["token"]) for a in attempts] == [
        (n + 1, f"error {n}", grant.token) for n in range(3)
    ]
    record = stage.record("e", "0:draw")
    assert (record["attempt"], record["failures"], record["crashes"]) == (4, 3, 0)


def test_events_are_numbered_without_a_gap(stage: Stage) -> None:
    """G4: records are contiguous, whatever scripts wrote them."""
    slot, grant = stage.task_leased()
    slot.report(grant, message="half way")
    stage.settle(slot, grant, claim=True)

    assert [event.seq for event in stage.events()] == list(range(1, len(stage.events()) + 1))
    assert [event.kind for event in stage.events()][-3:] == ["log", "completed", "replay"]


def test_a_deleted_execution_is_not_started_again(stage: Stage) -> None:
    """G4: its tombstone refuses the id, and nothing is written."""
    stage.register()
    stage.client.set(stage.store.keys("tombstone", INSTANCE, "e"), 1)
    before = stage.dump()

    assert stage.start() is StartAnswer.DELETED
    assert stage.dump() == before


@pytest.mark.parametrize("write", [*TASK_WRITES, "renew", "takeover", "repair", "abandon", "claim"])
def test_no_script_brings_a_deleted_execution_back(stage: Stage, write: str) -> None:
    """G4: a slot that still works for it is told that it has lost its lease."""
    slot, grant = stage.task_leased()
    stage.start("other")
    leader = stage.lead()
    for key in stage.client.scan_iter(f"{stage.store.namespace}:x:{INSTANCE}:e*"):
        stage.client.delete(key)
    stage.client.zadd(stage.store.keys("waiting", stage.queue()), {grant.route: 0})
    sessions, holder = stage.store.sessions, slot.holder

    if write in TASK_WRITES:
        with pytest.raises(LeaseLost):
            TASK_WRITES[write](stage, slot, grant)
    elif write == "renew":
        pairs = [(grant.route, grant.token, True)]
        assert sessions.renew("agent", 1, pairs, lease_ms=stage.lease_ms) == Renewed(
            lost=frozenset({(grant.route, grant.token)})
        )
    elif write == "takeover":
        take_over(stage, grant.route)
    elif write == "repair":
        assert stage.store.duties.repair(leader, f"{INSTANCE}/e", lease=stage.store.settings.lease) == []
    elif write == "abandon":
        sessions.abandon(holder.life, holder.queue, cause="killed", charge="recipe", run=holder.run)
    else:
        assert stage.claim(slot).execution == "other"

    assert not list(stage.client.scan_iter(f"{stage.store.namespace}:x:{INSTANCE}:e*"))
