"""The outbox in the store: how events get there, are read, and go."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import msgpack
import pytest

from tenure.errors import Malformed
from tenure.store.answers import DeliverAnswer
from tenure.store.duties import NotLeader, SetAside
from tenure.store.outbox import OutboxEvent, UnreadableEvent, read_event
from tests.posting import BODY, damage, kept, post, waiting
from tests.store.stage import Stage

SECOND = timedelta(seconds=1)
WEEK = timedelta(days=7)


def due(stage: Stage) -> list[OutboxEvent]:
    events = stage.store.duties.due_events(limit=10)
    assert all(isinstance(event, OutboxEvent) for event in events)
    return [event for event in events if isinstance(event, OutboxEvent)]


def refuse(
    stage: Stage, leader: int, event: OutboxEvent, *, reason: str = "no", age: timedelta = WEEK
) -> DeliverAnswer:
    return stage.store.duties.defer_event(leader, event, reason=reason, delay=10 * SECOND, age=age)


def test_what_was_posted_is_due_at_once_and_read_as_it_was(stage: Stage) -> None:
    began = datetime.now(UTC)
    event_id = post(stage.store, execution="e", instance="alice")
    [event] = due(stage)
    assert (event.id, event.instance, event.execution) == (event_id, "alice", "e")
    assert (event.body, event.tries, event.reason) == (BODY, 0, None)
    assert abs(event.at - began) < timedelta(seconds=10)


def test_a_post_wakes_the_scheduler_and_leaves_one_nudge_however_many_come(stage: Stage) -> None:
    for _ in range(3):
        post(stage.store)
    assert stage.client.llen(stage.store.keys("nudge")) == 1
    assert stage.store.duties.wait_for_nudge(SECOND)


def test_ids_only_grow_even_when_their_sequence_is_lost(stage: Stage) -> None:
    ids = [post(stage.store) for _ in range(3)]
    stage.client.delete(stage.store.keys("outbox_sequence"))
    ids.append(post(stage.store))
    assert ids == sorted(set(ids), key=int)


def test_a_failure_is_noted_with_the_event_which_is_due_again_later(stage: Stage) -> None:
    """G3"""
    leader, event_id = stage.lead(), post(stage.store)
    assert refuse(stage, leader, due(stage)[0], reason="full") is DeliverAnswer.DEFERRED
    assert due(stage) == []
    stage.pass_ms(10_000)
    [event] = due(stage)
    assert (event.id, event.tries, event.reason, event.body) == (event_id, 1, "full", BODY)


def test_a_failure_that_is_told_twice_counts_once(stage: Stage) -> None:
    """G16"""
    leader = stage.lead()
    post(stage.store)
    [event] = due(stage)
    refuse(stage, leader, event)
    before = stage.dump()
    assert refuse(stage, leader, event) is DeliverAnswer.DEFERRED
    assert stage.dump() == before


def test_an_event_that_fails_again_is_dropped_once_it_is_too_old(stage: Stage) -> None:
    leader = stage.lead()
    post(stage.store)
    stage.pass_ms(1000)
    [event] = due(stage)
    assert refuse(stage, leader, event, age=WEEK) is DeliverAnswer.DEFERRED
    stage.pass_ms(10_000)
    [event] = due(stage)
    assert refuse(stage, leader, event, age=SECOND) is DeliverAnswer.DROPPED
    assert (waiting(stage.store), kept(stage.store)) == ([], {})
    assert refuse(stage, leader, event, age=SECOND) is DeliverAnswer.GONE


def test_what_was_accepted_late_is_removed_whatever_was_noted_meanwhile(stage: Stage) -> None:
    leader = stage.lead()
    post(stage.store)
    [event] = due(stage)
    refuse(stage, leader, event)
    assert stage.store.duties.remove_event(leader, event.id) is DeliverAnswer.REMOVED
    assert (waiting(stage.store), kept(stage.store)) == ([], {})


def test_who_leads_no_more_settles_nothing(stage: Stage) -> None:
    leader = stage.lead()
    post(stage.store)
    stage.store.duties.resign("test")
    before = stage.dump()
    duties, [event] = stage.store.duties, due(stage)
    with pytest.raises(NotLeader):
        duties.remove_event(leader, event.id)
    with pytest.raises(NotLeader):
        refuse(stage, leader, event)
    with pytest.raises(NotLeader):
        duties.set_event_aside(leader, UnreadableEvent(event.id, "why"))
    assert stage.dump() == before


def test_what_cannot_be_read_is_set_aside_with_its_bytes(stage: Stage) -> None:
    """G17"""
    leader, bad, good = stage.lead(), post(stage.store), post(stage.store)
    damage(stage.store, bad, b"\xc1")
    unreadable, event = stage.store.duties.due_events(limit=10)
    assert isinstance(unreadable, UnreadableEvent)
    for _ in range(2):
        with pytest.raises(SetAside, match=bad):
            stage.store.duties.set_event_aside(leader, unreadable)
    assert waiting(stage.store) == [event.id] == [good]
    assert kept(stage.store)[bad] == b"\xc1"


def test_an_entry_without_an_event_goes(stage: Stage) -> None:
    """A server may have lost the one and kept the other."""
    leader, event_id = stage.lead(), post(stage.store)
    stage.client.delete(stage.store.keys("outbox_event"))
    [entry] = stage.store.duties.due_events(limit=10)
    assert entry == UnreadableEvent(event_id, "nothing is stored of it")
    assert stage.store.duties.set_event_aside(leader, entry) is DeliverAnswer.GONE
    assert waiting(stage.store) == []


def test_an_event_that_is_damaged_while_it_is_delivered_is_set_aside(stage: Stage) -> None:
    """G17"""
    leader, event_id = stage.lead(), post(stage.store)
    [event] = due(stage)
    damage(stage.store, event_id)
    with pytest.raises(Malformed, match=event_id):
        refuse(stage, leader, event)
    assert (waiting(stage.store), list(kept(stage.store))) == ([], [event_id])


def packed(**fields: Any) -> bytes:
    known = {"at": 1000, "instance": "i", "execution": "e", "body": "{}"}
    raw: bytes = msgpack.packb({**known, **fields})
    return raw


@pytest.mark.parametrize(
    "raw",
    [
        *(b"", b"\xc1", b"\x81", msgpack.packb([1]), msgpack.packb("at"), msgpack.packb({"at": 1})),
        *(packed(at="1"), packed(at=1.5), packed(at=2**62), packed(at=None)),
        *(packed(instance=1), packed(execution=None), packed(tries="1"), packed(reason=1)),
        *(packed(body=b"\xff"), packed(body=""), packed(body="[]"), packed(body='{"a": NaN}')),
        packed(body="[" * 100_000),
        packed() + b"\x00",
        packed().replace(b"\xa1i", b"\xa1\xff"),
    ],
    ids=range(21),
)
def test_only_what_is_an_event_to_the_last_byte_is_read(raw: bytes) -> None:
    """G17"""
    assert isinstance(read_event("1", raw), UnreadableEvent)


def test_a_time_is_exact_to_the_millisecond() -> None:
    event = read_event("1", packed(at=1_700_000_000_123))
    assert isinstance(event, OutboxEvent)
    assert event.at.isoformat() == "2023-11-14T22:13:20.123000+00:00"
