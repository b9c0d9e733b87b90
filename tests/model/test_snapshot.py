"""An execution as bytes comes back as it went, and today's bytes are read for good."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields, replace
from datetime import UTC, datetime, timedelta, timezone
from pathlib import Path
from typing import Any

import msgpack
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tenure.errors import Malformed
from tenure.model.blueprint import ExecutionBlueprint
from tenure.model.creation import new_execution
from tenure.model.execution import Execution
from tenure.model.marshalling import SNAPSHOT_SCHEMA, marshal_execution, unmarshal_execution
from tenure.model.snapshot import CapabilityExecutionState, ExecutionSnapshot
from tenure.model.status import CapabilityStatus, ExecutionStatus, is_terminal

HISTORY = Path(__file__).parents[1] / "histories" / "execution-snapshot-1.bin"

scalars = (
    st.none()
    | st.booleans()
    | st.integers(-(2**63), 2**63 - 1)
    | st.floats(allow_nan=False)
    | st.text()
    | st.binary()
)
plain_data = st.recursive(
    scalars,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=8,
)
params = st.dictionaries(st.text(max_size=5), plain_data, max_size=3)
instants = st.datetimes(
    min_value=datetime(2, 1, 1),  # noqa: DTZ001  # hypothesis adds the zone
    max_value=datetime(9998, 1, 1),  # noqa: DTZ001
    timezones=st.integers(-12, 14).map(lambda hours: timezone(timedelta(hours=hours))),
)
names = st.sampled_from(["draw", "print", "0:fold:3"])
states = st.builds(
    CapabilityExecutionState,
    status=st.sampled_from(CapabilityStatus),
    started_at=st.none() | instants,
    completed_at=st.none() | instants,
    error=st.text(),
)
snapshots = st.builds(
    ExecutionSnapshot,
    id=st.just("book-7"),
    correlation_id=st.text(),
    instance_id=st.text(),
    parent_execution_id=st.text(),
    status=st.sampled_from(ExecutionStatus),
    initial_params=params,
    params=st.dictionaries(names, params),
    results=st.dictionaries(names, plain_data),
    states=st.dictionaries(names, states),
    in_flight=st.integers(0, 2**40),
    started_at=st.none() | instants,
    completed_at=st.none() | instants,
    error=st.text(),
)
blueprints = st.builds(ExecutionBlueprint, st.just("book"), st.lists(names, unique=True).map(tuple))


def restored(snapshot: ExecutionSnapshot, blueprint: ExecutionBlueprint) -> Execution:
    execution = Execution(execution_id=snapshot.id, correlation_id="", instance_id="", blueprint=blueprint)
    execution.restore(snapshot)
    return execution


@given(snapshots, blueprints)
def test_whatever_is_marshalled_comes_back(
    snapshot: ExecutionSnapshot, blueprint: ExecutionBlueprint
) -> None:
    execution = restored(snapshot, blueprint)

    again = unmarshal_execution(marshal_execution(execution))

    assert again.snapshot() == execution.snapshot()
    assert again.blueprint == blueprint
    assert again.done.is_set() == is_terminal(snapshot.status)
    for moment in (again.started_at, again.completed_at):
        assert moment is None or moment.utcoffset() == timedelta(0)
    # What the blueprint has and the snapshot does not was never reached.
    for name in set(blueprint.capabilities) - set(snapshot.states):
        assert again.capability_state(name).status == "pending"


def test_a_snapshot_has_exactly_the_fields_of_the_seed() -> None:
    assert [field.name for field in fields(ExecutionSnapshot)] == [
        "id",
        "correlation_id",
        "instance_id",
        "parent_execution_id",
        "status",
        "initial_params",
        "params",
        "results",
        "states",
        "in_flight",
        "started_at",
        "completed_at",
        "error",
    ]
    assert [field.name for field in fields(CapabilityExecutionState)] == [
        "status",
        "started_at",
        "completed_at",
        "error",
    ]


def test_a_marshalled_execution_goes_on_where_it_was() -> None:
    execution = new_execution(ExecutionBlueprint("book", ("draw",)))
    execution.start({}, 1)
    execution.mark_capability_ready("draw", {})

    again = unmarshal_execution(marshal_execution(execution))
    again.mark_capability_running("draw")
    again.mark_capability_completed("draw", {"ink": 5})

    assert again.complete_current_and_schedule(0) == 0
    assert again.mark_completed()
    again.wait(0)


# --- the recorded format ---


def at(second: int) -> datetime:
    return datetime(2030, 1, 2, 3, 4, 5, 678000, tzinfo=UTC) + timedelta(seconds=second)


def state(
    status: str, started: int | None = None, completed: int | None = None, error: str = ""
) -> CapabilityExecutionState:
    return CapabilityExecutionState(
        status=CapabilityStatus(status),
        started_at=None if started is None else at(started),
        completed_at=None if completed is None else at(completed),
        error=error,
    )


RECORDED = ExecutionSnapshot(
    id="book-7",
    correlation_id="order-9",
    instance_id="press",
    parent_execution_id="shelf-1",
    status=ExecutionStatus.RUNNING,
    initial_params={"pages": [1, 2.5, None, True, "é", b"\x00\xff", datetime(2030, 1, 1, tzinfo=UTC)]},
    params={"draw": {"page": 1}, "fold": {}, "print": {"copies": 3}, "bind": {}, "wrap": {}},
    results={"draw": {"ink": 5}},
    states={
        "draw": state("completed", 1, 2),
        "fold": state("failed", 3, 4, "it broke"),
        "print": state("detached"),
        "bind": state("running", 5),
        "wrap": state("ready"),
        "sell": state("skipped", completed=6),
        "read": state("cancelled", completed=7, error="not needed"),
        "0:ship:1": state("pending"),
    },
    in_flight=5,
    started_at=at(0),
)


def test_bytes_of_the_first_format_are_read() -> None:
    """A change of the format gets a new recording beside this one; this one is never made again."""
    execution = unmarshal_execution(HISTORY.read_bytes())

    assert execution.snapshot() == RECORDED
    assert execution.blueprint == ExecutionBlueprint("book", tuple(RECORDED.states))


def test_today_the_first_format_is_written() -> None:
    """If this fails, the format has changed: raise its version and record it."""
    assert marshal_execution(unmarshal_execution(HISTORY.read_bytes())) == HISTORY.read_bytes()


# --- what cannot be read ---


def envelope(**changes: Any) -> bytes:
    data = msgpack.unpackb(HISTORY.read_bytes()[1:], timestamp=3)
    return b"\x01" + bytes(msgpack.packb({**data, **changes}, datetime=True))


def snapshot_with(changes: Mapping[str, Any]) -> bytes:
    data = msgpack.unpackb(HISTORY.read_bytes()[1:], timestamp=3)["snapshot"]
    return envelope(snapshot={**data, **changes})


@pytest.mark.parametrize(
    "data",
    [
        envelope(schema=SNAPSHOT_SCHEMA + 1),
        envelope(snapshot=None),
        envelope(blueprint={"name": "", "capabilities": []}),
        snapshot_with({"status": "asleep"}),
        snapshot_with({"in_flight": -1}),
        snapshot_with({"started_at": "2030-01-02T03:04:05"}),
        snapshot_with({"added_later": 1}),
        snapshot_with({"states": {"draw": {"status": "asleep"}}}),
        snapshot_with({"states": {"draw": {"added_later": 1}}}),
    ],
)
def test_what_is_newer_or_malformed_is_an_error_that_names_the_execution(data: bytes) -> None:
    """G17."""
    with pytest.raises(Malformed, match="execution book-7"):
        unmarshal_execution(data)


@pytest.mark.parametrize("data", [b"", b"\x02", b"\x01", b"\x01\xc1", b"\x01\x90", HISTORY.read_bytes()[:-1]])
def test_what_is_no_execution_at_all_is_malformed(data: bytes) -> None:
    """G17."""
    with pytest.raises(Malformed, match="a marshalled execution"):
        unmarshal_execution(data)


def test_every_truncation_is_noticed() -> None:
    whole = HISTORY.read_bytes()
    for length in range(len(whole)):
        with pytest.raises(Malformed):
            unmarshal_execution(whole[:length])


def test_a_zero_state_survives() -> None:
    execution = restored(
        replace(RECORDED, states={"draw": CapabilityExecutionState()}), ExecutionBlueprint("book", ())
    )
    assert unmarshal_execution(marshal_execution(execution)).snapshot() == execution.snapshot()
