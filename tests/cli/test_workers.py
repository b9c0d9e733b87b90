"""`tenure sessions` and `tenure pools`: what the store knows of workers."""

from __future__ import annotations

from tenure import Allocation, Client
from tenure.model.status import SessionState
from tenure.wiring import Store
from tests.cli.conftest import Tenure
from tests.harness import queue_of, working_slot
from tests.samples import DEFINITIONS, publish

BIG = Allocation(memory="128Gi", label={"zone": "eu"})


def test_sessions_by_name(tenure: Tenure, store: Store) -> None:
    working_slot(store, DEFINITIONS, session="b")
    working_slot(store, DEFINITIONS, session="a", life="l2", pool="big", allocation=BIG)
    store.sessions.retire("b", 1, SessionState.DRAINING)
    shown = tenure("sessions")
    assert shown.code == 0
    assert shown.rows("a")[0][:4] == ["a", "ready", "big", "1"]
    assert shown.rows("b")[0][:4] == ["b", "draining", "p", "1"]
    rows = tenure("sessions", "--json").data["sessions"]
    assert [(row["session"], row["state"], row["generation"]) for row in rows] == [
        ("a", "ready", 1),
        ("b", "draining", 1),
    ]
    assert rows[0]["queue"] == queue_of(store, DEFINITIONS, pool="big", allocation=BIG)
    assert rows[0]["expires_at"] > rows[0]["registered_at"]


def test_queues_by_pool(tenure: Tenure, store: Store, client: Client) -> None:
    for number in (1, 2):
        working_slot(store, DEFINITIONS, session=f"s{number}", life=f"l{number}")
    working_slot(store, DEFINITIONS, session="b", life="l3", pool="big", allocation=BIG).drain()
    client.start(publish, "Dune")
    client.start(publish, "Emma")
    shown = tenure("pools")
    assert shown.code == 0
    assert "memory=128Gi,label.zone=eu" in shown.rows("big")[0]
    assert shown.rows("p")[0][2:6] == ["(unspecified)", "2", "2", "0"]
    big, small = tenure("pools", "--json").data["pools"]
    assert (big["pool"], small["pool"]) == ("big", "p")
    (queue,) = big["queues"]
    assert queue["allocation"] == {"memory": "128Gi", "label": {"zone": "eu"}}
    assert (queue["sessions"], queue["slots"], queue["idle"]) == (1, 1, 1)
    assert queue["waiting"] + small["queues"][0]["waiting"] == 2
    assert "publish@1" in queue["recipes"]
    assert "draft" in queue["tasks"]


def test_no_worker_is_said_with_what_to_do(tenure: Tenure) -> None:
    for command in ("sessions", "pools"):
        shown = tenure.here(command)
        assert (shown.code, len(shown.lines)) == (0, 1)
        assert "`tenure worker`" in shown.out
    assert tenure.here("sessions", "--json").data == {"sessions": []}
    assert tenure.here("pools", "--json").data == {"pools": []}
