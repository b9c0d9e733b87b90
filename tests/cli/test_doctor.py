"""`tenure doctor`: what it finds on real servers with real processes, and how it judges what it reads."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from tenure import Client, Run, Settings, recipe
from tenure.cli.doctor import namespace as work
from tenure.cli.doctor import server as hosts
from tenure.cli.doctor.findings import Finding, Level
from tenure.engine.driver import Driver
from tenure.errors import Unconfirmed
from tenure.store.checkup import Backlog, IndexReading, NamespaceReading, OutboxReading, ServerReading
from tenure.store.connection import connect
from tenure.store.duties import Leading, SetAside
from tenure.store.outbox import OutboxEvent, UnreadableEvent
from tenure.wiring import Store
from tests import samples
from tests.cli.conftest import Ended, Tenure
from tests.engine.site import Site as Records
from tests.posting import damage, post
from tests.processes import Site
from tests.servers import RestartableServer

MINUTE = 60_000


def checks(ended: Ended) -> dict[str, dict[str, Any]]:

    return {check["check"]: check for check in json.loads(ended.out)["checks"]}


# -- as people run it ----------------------------------------------------------------------------------------


def test_where_all_is_well_nothing_is_to_be_done(site: Site, namespace: str, url: str) -> None:
    site.scheduler()
    site.worker(slots=2)
    ended = Tenure(url, namespace)("doctor", "--json")
    assert ended.code == 0, ended.out
    found = checks(ended)
    assert {check["is"] for check in found.values()} == {"ok"}, found
    assert {check["advice"] for check in found.values()} == {None}
    assert found["scheduler"]["found"] == "scheduler leads"
    assert found["sessions"]["found"] == "1 ready with 2 slots, 0 draining, 0 lapsed"


def test_live_work_without_scheduler_and_worker_has_failed(tenure: Tenure, client: Client) -> None:
    handle = client.start(samples.squares, 1)
    ended = tenure("doctor")
    assert ended.code == 1
    assert "no scheduler leads: nothing is taken over" in ended.out
    assert "start one, better two: `tenure scheduler`" in ended.out
    assert "start a worker: `tenure worker POOL --import MODULE`" in ended.out
    assert f"`tenure --instance default explain {handle.id}` says what is missing" in ended.out


def test_executions_of_a_newer_schema_and_damaged_ones_are_named(
    tenure: Tenure, client: Client, store: Store
) -> None:
    """G17"""
    for name in ("fine", "newer", "typed", "torn"):
        client.start(samples.squares, 1, id=name)
    assert checks(tenure.here("doctor", "--json"))["schema"]["is"] == "ok"
    keys = {name: store.keys("execution", "default", name) for name in ("newer", "typed", "torn")}
    store.client.hset(keys["newer"], "schema", "99")
    store.client.delete(keys["typed"])
    store.client.set(keys["typed"], "no hash")
    store.client.hdel(keys["torn"], "status")
    found = checks(tenure.here("doctor", "--json"))
    assert found["schema"]["is"] == found["headers"]["is"] == "warning"
    assert found["schema"]["found"] == "1 live execution of a newer Tenure, such as default/newer"
    assert "upgrade" in found["schema"]["advice"]
    assert found["headers"]["found"].startswith("2 live executions whose header cannot be read, such as ")
    assert "backup" in found["headers"]["advice"]


def test_demands_that_cannot_be_read_are_told_apart(
    tenure: Tenure, client: Client, slot: Driver, records: Records
) -> None:
    """G17: those that nobody could place, those in a queue, and those that a slot has met."""
    for name in ("met", "waiting", "other", "newer", "fine"):
        client.start(samples.squares, 1, id=name)
    records.edit_record(client.get("met"), demand="[]")
    slot.drain()
    for name, demand in (("waiting", "{"), ("other", "7"), ("newer", '{"galaxy":{}}')):
        handle = client.start(samples.heavy, id=f"{name}-too")
        slot.drain()
        records.edit_record(handle, "0:crunch", demand=demand)
    found = checks(tenure.here("doctor", "--json"))
    assert found["demands"]["is"] == found["newer demands"]["is"] == "warning"
    assert found["demands"]["found"].startswith(
        "3 routes of which nobody can read what is needed: execution waiting-too: the demand of 0:crunch"
    )
    assert "`tenure --instance default explain waiting-too`" in found["demands"]["advice"]
    assert "`tenure --instance default cancel waiting-too` ends it" in found["demands"]["advice"]
    assert found["newer demands"]["found"].startswith("1 route with needs that this version does not know: ")
    assert "execution newer-too" in found["newer demands"]["found"]
    assert "upgrade" in found["newer demands"]["advice"]
    assert found["placement"]["is"] == "ok"


def test_no_worker_that_fits_is_told_from_no_worker_with_the_code(
    tenure: Tenure, client: Client, slot: Driver
) -> None:
    @recipe
    def elsewhere(run: Run) -> None: ...

    for name in ("big", "huge"):
        client.start(samples.heavy, id=name)
    slot.drain()
    found = checks(tenure.here("doctor", "--json"))
    assert (found["placement"]["is"], found["code"]["is"]) == ("warning", "ok")
    assert found["placement"]["found"].startswith(
        "2 tasks that no worker fits, such as 0:crunch of execution big for "
    )
    assert found["placement"]["advice"] == "`tenure --instance default explain big` says what is missing"

    client.start(elsewhere, id="lost")
    found = checks(tenure.here("doctor", "--json"))
    assert found["placement"]["found"].startswith("2 tasks")
    assert found["code"]["is"] == "warning"
    assert found["code"]["found"].startswith(
        "1 task whose code no worker has loaded, such as recipe of execution lost for "
    )
    assert found["code"]["found"].endswith("(recipe elsewhere@1)")
    assert "start a worker with --import" in found["code"]["advice"]


def test_a_namespace_that_nobody_uses_is_worth_a_warning(tenure: Tenure) -> None:
    ended = tenure.here("doctor", "--json")
    assert ended.code == 0
    assert checks(ended)["namespace"]["is"] == "warning"
    assert "scheduler" not in checks(ended)


def test_unknown_outcomes_are_named(tenure: Tenure, client: Client, slot: Driver) -> None:
    handle = client.start(samples.billing, 5, vanish=True)
    with pytest.raises(Unconfirmed):
        slot.drain()
    leases = slot._bench.leases
    client.store.sessions.abandon(
        leases.holder.life, leases.holder.queue, cause="killed", charge="task", run=leases.holder.run
    )
    found = checks(tenure.here("doctor", "--json"))
    assert found["unknown outcomes"]["is"] == "warning"
    assert handle.id in found["unknown outcomes"]["advice"]


def test_events_that_no_provisioner_accepts_are_told_with_the_reason(tenure: Tenure, store: Store) -> None:
    """Posted by a clock that is behind, which is how an event gets old at once."""
    client: Any = store.client
    post(store)
    assert "1 event on the way" in checks(tenure.here("doctor", "--json"))["outbox"]["found"]

    client.set(store.keys("clock"), -2 * MINUTE)
    event_id = post(store)
    client.delete(store.keys("clock"))
    found = checks(tenure.here("doctor", "--json"))["outbox"]
    assert found["is"] == "warning"
    assert found["found"].startswith("2 events for the provisioner not delivered, the first for 2 m")
    assert "start a scheduler" in found["advice"]

    duties, second = store.duties, timedelta(seconds=1)
    leading = duties.lead("test", lease=5 * second, grace=second)
    assert isinstance(leading, Leading)
    [event] = [e for e in duties.due_events(limit=2) if isinstance(e, OutboxEvent) and e.id == event_id]
    duties.defer_event(leading.token, event, reason="quota exceeded", delay=second, age=MINUTE * second)
    found = checks(tenure.here("doctor", "--json"))["outbox"]
    assert found["found"].endswith(": quota exceeded")
    assert "`tenure scheduler --provisioner`" in found["advice"]


def test_events_that_cannot_be_read_are_counted(tenure: Tenure, store: Store) -> None:
    leading = store.duties.lead("test", lease=timedelta(seconds=5), grace=timedelta(seconds=1))
    assert isinstance(leading, Leading)
    damage(store, post(store))
    [unreadable] = store.duties.due_events(limit=2)
    assert isinstance(unreadable, UnreadableEvent)
    with pytest.raises(SetAside):
        store.duties.set_event_aside(leading.token, unreadable)
    found = checks(tenure.here("doctor", "--json"))["outbox"]
    assert (found["is"], found["found"]) == (
        "warning",
        "1 event for the provisioner cannot be read, and set aside",
    )


def test_an_unreachable_server_is_the_only_finding(tmp_path: Path) -> None:
    ended = Tenure(f"unix://{tmp_path}/none", "any")("doctor", "--json")
    assert ended.code == 5
    assert [check["is"] for check in checks(ended).values()] == ["failed"]
    assert "start it" in checks(ended)["reachable"]["advice"]


@pytest.fixture
def own(tmp_path: Path) -> Iterator[RestartableServer]:
    with RestartableServer(tmp_path / "server") as server:
        yield server


def test_an_evicting_server_has_failed_and_its_namespace_is_not_looked_at(own: RestartableServer) -> None:
    connect(own.url).config_set("maxmemory-policy", "allkeys-lru")
    ended = Tenure(own.url, "any").here("doctor", "--json")
    assert ended.code == 1
    found = checks(ended)
    assert found["eviction"]["is"] == "failed"
    assert "CONFIG SET maxmemory-policy noeviction" in found["eviction"]["advice"]
    assert found["version"]["is"] == "ok"
    assert "namespace" not in found


def test_a_full_server_and_one_that_keeps_nothing_have_failed(own: RestartableServer) -> None:
    client = connect(own.url)
    client.config_set("appendonly", "no")
    client.config_set("maxmemory", "1mb")
    ended = Tenure(own.url, "any").here("doctor", "--json")
    assert ended.code == 1
    found = checks(ended)
    assert found["memory"]["is"] == "failed"
    assert found["persistence"]["is"] == "failed"
    client.config_set("save", "3600 1")
    client.config_set("maxmemory", "0")
    ended = Tenure(own.url, "any").here("doctor", "--json")
    assert ended.code == 0
    assert checks(ended)["persistence"]["is"] == "warning"


def test_a_replica_has_failed(own: RestartableServer) -> None:
    client = connect(own.url)
    client.replicaof("192.0.2.1", 6379)
    ended = Tenure(own.url, "any").here("doctor", "--json")
    assert ended.code == 1
    assert "192.0.2.1:6379" in checks(ended)["role"]["advice"]


# -- how it judges -------------------------------------------------------------------------------------------


def server(*, ahead: float = 0, round_trip: float = 0.001, fsync: str | None = "always", **info: Any) -> Any:
    reading = ServerReading(
        info={"redis_version": "7.2.4", "role": "master", "aof_enabled": 1, "run_id": "r", **info},
        fsync=fsync,
        snapshots=True,
        round_trip=timedelta(seconds=round_trip),
        ahead=timedelta(seconds=ahead),
    )
    return {f.check: f for f in hosts.examine(reading, "redis://:secret@host", Settings())}


@pytest.mark.parametrize(
    ("check", "level", "found"),
    [
        ("version", Level.FAILED, server(redis_version="6.2")),
        ("version", Level.FAILED, server(redis_version="")),
        ("mode", Level.FAILED, server(redis_mode="cluster")),
        ("persistence", Level.OK, server()),
        ("persistence", Level.OK, server(fsync=None)),
        ("persistence", Level.WARNING, server(fsync="no")),
        ("persistence", Level.FAILED, server(aof_last_write_status="err")),
        ("memory", Level.WARNING, server(used_memory=91, maxmemory=100)),
        ("clock", Level.OK, server(ahead=0.9)),
        ("clock", Level.WARNING, server(ahead=-3)),
        ("clock", Level.OK, server(ahead=3, round_trip=5)),
        ("round trip", Level.WARNING, server(round_trip=0.05)),
        ("round trip", Level.FAILED, server(round_trip=3)),
    ],
)
def test_a_server_is_judged_by_what_it_says(check: str, level: Level, found: dict[str, Finding]) -> None:
    assert found[check].level is level
    assert bool(found[check].advice) == (level is not Level.OK)
    assert not any("secret" in f"{one.found} {one.advice}" for one in found.values())


def reading(**changes: Any) -> dict[str, Finding]:
    now = int(time.time() * 1000)
    nothing = IndexReading(count=0)
    facts: dict[str, Any] = {
        "now": now,
        "live": 1,
        "ended": 0,
        "leader": "one:ab",
        "leads_until": now + 5000,
        "leased": 1,
        **dict.fromkeys(("unknown", "blocked", "lapsed"), nothing),
        "backlogs": [],
        "outbox": OutboxReading(count=0),
        "last_event_at": now,
    }
    ages = {name: now - value for name, value in changes.items() if name in ("last_event_at", "leads_until")}
    return {f.check: f for f in work.examine(NamespaceReading(**{**facts, **changes, **ages}), [], "n")}


def backlog(*, sessions: int = 1, idle: int = 0, waiting: int = 1, tickets: int = 1, age: int = 0) -> Backlog:
    since = int(time.time() * 1000) - age
    return Backlog(
        queue="q", sessions=sessions, idle=idle, waiting=waiting, tickets=tickets, next_since=since
    )


def outbox(age: int, *, reason: str | None = None, set_aside: int = 0) -> OutboxReading:
    since = int(time.time() * 1000) - age
    return OutboxReading(count=1, since=since, reason=reason, set_aside=set_aside)


def entry(age: int) -> IndexReading:
    return IndexReading(count=1, oldest="default/e/recipe", since=int(time.time() * 1000) - age)


@pytest.mark.parametrize(
    ("check", "level", "found"),
    [
        ("scheduler", Level.OK, reading()),
        ("scheduler", Level.FAILED, reading(leads_until=1000)),
        ("scheduler", Level.WARNING, reading(leads_until=1000, live=0)),
        ("sessions", Level.FAILED, reading()),
        ("queues", Level.WARNING, reading(backlogs=[backlog(sessions=0)])),
        ("queues", Level.OK, reading(backlogs=[backlog()])),
        ("blocked", Level.WARNING, reading(blocked=entry(0))),
        ("leases", Level.WARNING, reading(lapsed=entry(1000))),
        ("leases", Level.FAILED, reading(lapsed=entry(MINUTE))),
        ("tickets", Level.WARNING, reading(backlogs=[backlog(tickets=0)])),
        ("tickets", Level.OK, reading(backlogs=[backlog(tickets=50)])),
        ("tickets", Level.WARNING, reading(backlogs=[backlog(tickets=500)])),
        ("outbox", Level.OK, reading()),
        ("outbox", Level.OK, reading(outbox=outbox(1000, reason="no"))),
        ("outbox", Level.WARNING, reading(outbox=outbox(2 * MINUTE))),
        ("outbox", Level.WARNING, reading(outbox=outbox(2 * MINUTE, reason="no"))),
        ("outbox", Level.WARNING, reading(outbox=outbox(1000, set_aside=1))),
        ("movement", Level.OK, reading(backlogs=[backlog(age=2 * MINUTE, idle=1)])),
        ("movement", Level.OK, reading(backlogs=[backlog(idle=1)], last_event_at=2 * MINUTE)),
        (
            "movement",
            Level.FAILED,
            reading(backlogs=[backlog(age=2 * MINUTE, idle=1)], last_event_at=2 * MINUTE),
        ),
        ("movement", Level.WARNING, reading(backlogs=[backlog(age=2 * MINUTE)], last_event_at=2 * MINUTE)),
    ],
)
def test_a_namespace_is_judged_by_what_waits(check: str, level: Level, found: dict[str, Finding]) -> None:
    assert found[check].level is level
    assert bool(found[check].advice) == (level is not Level.OK)
