"""`tenure cancel`: what it says, its JSON, and its exit codes."""

from __future__ import annotations

import pytest

from tenure import Client
from tenure.cli.failures import ExitCode
from tenure.engine.driver import Driver
from tests.cli.conftest import Tenure
from tests.samples import billing, heavy_recipe, publish


def test_what_nothing_runs_of_is_cancelled_at_once(tenure: Tenure, client: Client) -> None:
    handle = client.start(heavy_recipe, id="big")
    done = tenure("cancel", "big", "--reason", "nobody needs it")
    assert (done.code, done.out.strip()) == (0, "execution big is cancelled")
    assert handle.snapshot().error == "nobody needs it"
    shown = tenure.here("show", "big")
    assert "cancelled" in shown.out


def test_as_json(tenure: Tenure, client: Client) -> None:
    client.start(heavy_recipe, id="big")
    assert tenure.here("cancel", "big", "--json").data == {"execution": "big", "answer": "cancelled"}


def test_what_has_ended_is_a_conflict(tenure: Tenure, client: Client, slot: Driver) -> None:
    client.start(publish, "Dune", id="dune")
    slot.drain()
    done = tenure.here("cancel", "dune")
    assert done.code == ExitCode.CONFLICT
    assert "has ended already" in done.out
    assert client.get("dune").status() == "completed"


def test_what_nobody_knows_of_is_not_found(tenure: Tenure) -> None:
    done = tenure.here("cancel", "nothing")
    assert done.code == ExitCode.NOT_FOUND
    assert "nothing" in done.err


def test_an_unknown_outcome_is_named_as_what_it_waits_for(
    tenure: Tenure, client: Client, slot: Driver
) -> None:
    handle = client.start(billing, 5, vanish=True, id="bill")
    with pytest.raises(Exception, match="vanished"):
        slot.drain()
    client.store.sessions.abandon(
        "l1", client.store.placement.view().queues[0].name, cause="gone", charge="task", run=""
    )
    assert handle.explain().reason == "unknown_outcome"
    done = tenure.here("cancel", "bill")
    assert done.code == 0
    assert "that keeps it open" in done.out
    assert tenure.here("explain", "bill", "--json").data["reason"] == "cancelling"
