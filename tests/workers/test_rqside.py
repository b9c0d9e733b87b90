"""RQ's side of a slot: what it takes, what it survives, and what would change under us with another rq."""

from __future__ import annotations

import inspect
import logging
import pickle
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import cast

import pytest
import redis
from rq import SimpleWorker, Worker
from rq.executions import Execution
from rq.job import Job, JobStatus
from rq.queue import Queue
from rq.registry import FailedJobRegistry, StartedJobRegistry
from rq.worker import BaseWorker

from tenure.errors import StoreFull, Unconfirmed
from tenure.store.keys import Keys
from tenure.transport import tickets
from tenure_workers.page import SlotPage
from tenure_workers.rqside import (
    Leftovers,
    LiveWorker,
    SlotWorker,
    TicketJob,
    TicketQueue,
    connect_for_rq,
    forget_worker,
    poison_key,
    renew_rq_entries,
    unblock_workers,
)
from tests.waiting import wait_until

LIMIT = 10.0


@pytest.fixture(autouse=True)
def _msgpack() -> None:
    tickets.install()


@dataclass
class Site:
    """One queue, a worker on it in a thread, and a driver that takes notes."""

    url: str
    client: redis.Redis
    queue: str
    page: SlotPage = field(default_factory=SlotPage.create)
    drained: list[str | None] = field(default_factory=list)
    acts: list[Callable[[], None]] = field(default_factory=list)
    connected: int = 0
    thread: threading.Thread | None = None
    raised: Exception | None = None

    def __post_init__(self) -> None:
        self.name = f"{self.queue}-worker"
        self.worker = SlotWorker(
            queue=self.queue,
            name=self.name,
            connection=connect_for_rq(self.url, self.name),
            driver=self,
            page=self.page,
            on_connected=self.note_connected,
        )
        # Only a main thread may set handlers.
        self.worker._install_signal_handlers = lambda: None  # type: ignore[method-assign]

    def note_connected(self) -> None:
        self.connected += 1

    def drain(self, ticket: str | None = None) -> None:
        self.drained.append(ticket)
        if ticket is not None and self.acts:
            self.acts.pop(0)()

    def hold_next(self) -> threading.Event:
        """The next ticket runs until the event is set."""
        event = threading.Event()

        def hold() -> None:
            assert event.wait(LIMIT)

        self.acts.append(hold)
        return event

    def write_ticket(self, number: int, **changes: bytes | str | int) -> str:
        """As `_ticket.lua` writes them."""
        shape = tickets.shape(self.queue)
        ticket = f"{shape.prefix}{number}"
        at = datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")
        fields: dict[str, bytes | str | int] = {
            "data": shape.data,
            "origin": self.queue,
            "status": shape.status,
            "timeout": shape.timeout,
            "result_ttl": 0,
            "failure_ttl": shape.failure_ttl,
            "created_at": at,
            "enqueued_at": at,
            "description": "publish 0:render attempt 1",
            "route": "default/book-7/0:render",
        }
        self.client.hset(f"rq:job:{ticket}", mapping={**fields, **changes})  # type: ignore[dict-item]
        self.client.sadd("rq:queues", f"rq:queue:{self.queue}")
        self.client.rpush(f"rq:queue:{self.queue}", ticket)
        return ticket

    def work(self) -> None:
        def run() -> None:
            try:
                self.worker.run()
            except Exception as error:  # noqa: BLE001  # the test looks at it
                self.raised = error

        self.thread = threading.Thread(target=run)
        self.thread.start()

    def leave(self) -> None:
        self.page.request_drain()
        if self.thread is not None:
            until = time.monotonic() + LIMIT
            while self.thread.is_alive() and time.monotonic() < until:
                unblock_workers(self.client, {self.name})
                self.thread.join(0.02)
            assert not self.thread.is_alive(), "the worker did not leave"

    def between(self) -> list[bytes]:
        return cast("list[bytes]", self.client.lrange(f"rq:queue:{self.queue}:intermediate", 0, -1))

    def poisoned(self) -> list[bytes]:
        return cast("list[bytes]", self.client.lrange(poison_key(self.queue), 0, -1))


@pytest.fixture
def site(url: str, redis_client: redis.Redis, namespace: str) -> Iterator[Site]:
    site = Site(url, redis_client, f"{namespace}-small-0123")
    yield site
    site.leave()
    site.worker.connection.close()
    site.page.close()
    for key in redis_client.scan_iter(match=f"rq:*{namespace}*"):
        redis_client.delete(key)
    redis_client.srem("rq:queues", f"rq:queue:{site.queue}")


def seen(site: Site, *ticket_ids: str) -> bool:
    return set(ticket_ids) <= set(site.drained)


# --- working ---


def test_a_worker_looks_for_work_before_it_waits_for_tickets(site: Site) -> None:
    site.work()
    wait_until(lambda: site.drained == [None], LIMIT, "the driver drains without a ticket")
    assert site.connected == 1


def test_a_ticket_sets_the_driver_to_work_and_is_gone_afterwards(site: Site) -> None:
    ticket = site.write_ticket(1)
    site.work()
    wait_until(lambda: seen(site, ticket), LIMIT, "the ticket is taken")
    site.leave()
    assert not site.client.exists(f"rq:job:{ticket}")
    assert site.between() == []
    leftover = [
        key
        for key in site.client.scan_iter(match=f"rq:*{site.queue}*")
        if key != b"rq:worker:" + site.name.encode()
    ]
    assert leftover == []


def test_a_dashboard_sees_who_runs_what(site: Site) -> None:
    hold = site.hold_next()
    ticket = site.write_ticket(1)
    site.work()
    wait_until(lambda: seen(site, ticket), LIMIT, "the ticket runs")

    (worker,) = [w for w in Worker.all(connection=site.client) if w.name == site.name]
    assert worker.get_state() == "busy"
    assert worker.queue_names() == [site.queue]
    current = worker.get_current_job()
    assert current is not None
    assert current.id == ticket
    job = Job.fetch(ticket, connection=site.client)
    assert job.get_status() is JobStatus.STARTED
    assert job.description == "publish 0:render attempt 1"
    started = StartedJobRegistry(site.queue, connection=site.client)
    assert started.get_job_ids(cleanup=False) == [ticket]
    assert site.page.read().entry.startswith(f"{ticket}:")

    hold.set()
    wait_until(lambda: site.page.read().entry == "", LIMIT, "the ticket is done")
    wait_until(lambda: started.get_job_ids(cleanup=False) == [], LIMIT, "RQ knows that it is done")


def test_a_ticket_costs_few_commands(site: Site, redis_client: redis.Redis) -> None:
    """The price that RQ asks for an idle slot's wake-up; `SimpleWorker` pays 53."""
    site.work()
    wait_until(lambda: site.drained == [None], LIMIT, "the worker waits")

    def processed() -> int:
        return int(redis_client.info("commandstats")["cmdstat_hset"]["calls"])

    before, count = processed(), 10
    for number in range(count):
        ticket = site.write_ticket(number)
        wait_until(lambda ticket=ticket: seen(site, ticket), LIMIT, "the ticket is taken")  # type: ignore[misc]
    wait_until(lambda: site.page.read().entry == "", LIMIT, "the last is done")
    # Of the writes to hashes, one is the ticket itself; the others are all that RQ's display costs.
    assert (processed() - before) / count <= 6


def test_an_idle_worker_is_woken_to_leave(site: Site) -> None:
    site.work()
    wait_until(lambda: site.drained == [None], LIMIT, "the worker waits")
    began = time.monotonic()
    site.leave()
    assert time.monotonic() - began < 2
    assert site.raised is None
    assert not site.client.sismember("rq:workers", f"rq:worker:{site.name}")


def test_a_suspended_worker_takes_nothing_and_leaves_all_the_same(site: Site) -> None:
    site.client.set("rq:suspended", 1)
    try:
        ticket = site.write_ticket(1)
        site.work()
        wait_until(lambda: site.drained == [None], LIMIT, "the worker is there")
        time.sleep(0.3)
        assert not seen(site, ticket)
        site.leave()
    finally:
        site.client.delete("rq:suspended")


# --- what is no ticket ---

BAD: dict[str, dict[str, bytes | str | int]] = {
    "os.system": {"data": tickets.MsgpackSerializer.dumps(["os.system", None, ["touch /tmp/no"], {}])},
    "a pickled call": {"data": pickle.dumps(("os.system", None, ("true",), {}))},
    "pickled meta": {"meta": pickle.dumps({"a": 1})},
    "any meta": {"meta": tickets.MsgpackSerializer.dumps({})},
    "a callback": {"success_callback_name": "os.abort"},
    "a webhook": {"webhooks": '[{"url": "http://127.0.0.1/"}]'},
    "dependencies": {"dependency_ids": '["other"]'},
    "another queue": {"origin": "elsewhere"},
    "a broken creation time": {"created_at": "yesterday"},
    "a broken start time": {"started_at": b"\xff\xfe"},
    "an unknown status": {"status": "happy"},
    "a word for a timeout": {"timeout": "soon"},
    "a word for a time to live": {"result_ttl": "long"},
    "a name that is no text": {"worker_name": b"\xff"},
}


@pytest.mark.parametrize("what", BAD)
def test_what_is_no_ticket_is_put_aside_with_its_bytes(
    site: Site, what: str, caplog: pytest.LogCaptureFixture
) -> None:
    bad = site.write_ticket(1, **BAD[what])
    kept = site.client.hgetall(f"rq:job:{bad}")
    good = site.write_ticket(2)
    with caplog.at_level(logging.WARNING):
        site.work()
        wait_until(lambda: seen(site, good), LIMIT, "the next ticket is taken")
        site.leave()
    assert not seen(site, bad)
    assert site.raised is None
    assert site.poisoned() == [bad.encode()]
    assert site.between() == []
    assert site.client.hgetall(f"rq:job:{bad}") == kept
    assert bad in caplog.text


@pytest.mark.parametrize("raw", [b"", b"a:b", b"\xff\xfe", "ünïcode".encode(), b"{}"])
def test_an_id_that_is_none_is_put_aside(site: Site, raw: bytes) -> None:
    site.client.rpush(f"rq:queue:{site.queue}", raw)
    good = site.write_ticket(2)
    site.work()
    wait_until(lambda: seen(site, good), LIMIT, "the next ticket is taken")
    site.leave()
    assert (site.poisoned(), site.between()) == ([raw], [])


def test_a_key_of_another_type_is_put_aside(site: Site) -> None:
    site.client.set(f"rq:job:{site.queue}-odd", "not a hash")
    site.client.rpush(f"rq:queue:{site.queue}", f"{site.queue}-odd")
    good = site.write_ticket(2)
    site.work()
    wait_until(lambda: seen(site, good), LIMIT, "the next ticket is taken")
    site.leave()
    assert site.poisoned() == [f"{site.queue}-odd".encode()]


def test_a_ticket_without_a_hash_is_skipped(site: Site) -> None:
    site.client.rpush(f"rq:queue:{site.queue}", f"{site.queue}-gone")
    good = site.write_ticket(2)
    site.work()
    wait_until(lambda: seen(site, good), LIMIT, "the next ticket is taken")
    site.leave()
    assert (site.poisoned(), site.between()) == ([], [])


def test_fields_that_a_later_version_may_add_are_no_harm(site: Site) -> None:
    ticket = site.write_ticket(1, hue="blue")
    site.work()
    wait_until(lambda: seen(site, ticket), LIMIT, "the ticket is taken")


def test_the_list_of_what_was_put_aside_is_capped(site: Site) -> None:
    site.client.rpush(f"rq:queue:{site.queue}", *[f"no:{n}" for n in range(1100)])
    good = site.write_ticket(2)
    site.work()
    wait_until(lambda: seen(site, good), 30, "the next ticket is taken")
    assert len(site.poisoned()) == 1000


# --- troubles ---


def test_a_queue_of_the_wrong_type_is_waited_out(site: Site) -> None:
    site.client.set(f"rq:queue:{site.queue}", "not a list")
    site.work()
    wait_until(lambda: site.connected > 1, LIMIT, "the worker tries again")
    site.client.delete(f"rq:queue:{site.queue}")
    ticket = site.write_ticket(1)
    wait_until(lambda: seen(site, ticket), LIMIT, "the ticket is taken")


def test_a_cut_connection_is_made_again_and_work_looked_for(site: Site) -> None:
    site.work()
    wait_until(lambda: site.drained == [None], LIMIT, "the worker waits")
    for row in site.client.client_list():
        if row["name"] == site.name:
            site.client.client_kill_filter(_id=row["id"])
    wait_until(lambda: site.drained == [None, None], LIMIT, "work is looked for without a ticket")
    ticket = site.write_ticket(1)
    wait_until(lambda: seen(site, ticket), LIMIT, "the ticket is taken")


def test_a_full_store_is_waited_out(site: Site) -> None:
    def full() -> None:
        raise StoreFull("no room")

    site.acts.append(full)
    site.write_ticket(1)
    second = site.write_ticket(2)
    site.work()
    wait_until(lambda: seen(site, second), LIMIT, "the next ticket is taken")


@pytest.mark.parametrize("error", [Unconfirmed("no reply"), RuntimeError("a bug")])
def test_what_the_driver_cannot_bear_ends_the_worker_and_is_raised(site: Site, error: Exception) -> None:
    def fail() -> None:
        raise error

    site.acts.append(fail)
    ticket = site.write_ticket(1)
    site.work()
    wait_until(lambda: site.raised is error, LIMIT, "the error comes out")
    assert not site.client.exists(f"rq:job:{ticket}")


# --- what the agent keeps up ---


def test_a_renewed_worker_stays_in_rqs_registries(site: Site) -> None:
    hold = site.hold_next()
    ticket = site.write_ticket(1)
    site.work()
    wait_until(lambda: seen(site, ticket), LIMIT, "the ticket runs")
    entry = site.page.read().entry
    key = f"rq:worker:{site.name}"
    site.client.expire(key, 5)
    site.client.zadd(f"rq:wip:{site.queue}", {entry: 1})
    renew_rq_entries(site.client, site.queue, [LiveWorker(site.name, entry)])
    assert site.client.ttl(key) > 60
    StartedJobRegistry(site.queue, connection=site.client).cleanup()
    assert FailedJobRegistry(site.queue, connection=site.client).get_job_ids() == []
    assert Job.fetch(ticket, connection=site.client).get_status() is JobStatus.STARTED
    hold.set()


def test_renewal_brings_nothing_back_that_has_expired(site: Site) -> None:
    renew_rq_entries(site.client, site.queue, [LiveWorker(f"{site.name}-gone", "job:execution")])
    assert list(site.client.scan_iter(match=f"rq:*{site.queue}*")) == []
    assert not site.client.exists(f"rq:worker:{site.name}-gone", "rq:execution:job:execution")


def _as_if_killed(site: Site) -> str:
    """What a slot that was killed while it ran a ticket leaves; returns the entry."""
    ticket = site.write_ticket(1)
    site.client.lrem(f"rq:queue:{site.queue}", 0, ticket)
    site.worker.bootstrap()
    site.worker._announce()
    job = TicketJob.fetch(ticket, connection=site.client, serializer=tickets.MsgpackSerializer)
    return str(site.worker._begin(job).composite_key)


def test_a_dead_worker_is_forgotten_with_its_job(site: Site) -> None:
    _as_if_killed(site)
    forget_worker(site.client, site.queue, site.name)
    assert list(site.client.scan_iter(match=f"rq:*{site.queue}*")) == []


def test_what_lost_slots_left_is_swept_when_it_lapses(site: Site) -> None:
    entry = _as_if_killed(site)
    leftovers = Leftovers(site.client, site.queue)
    assert leftovers.run_once() == 0
    site.client.zadd(f"rq:wip:{site.queue}", {entry: 1})
    site.client.delete(f"rq:worker:{site.name}", f"rq:worker:{site.name}:executions")
    assert leftovers.run_once() == 1
    assert list(site.client.scan_iter(match=f"rq:*{site.queue}*")) == []
    assert FailedJobRegistry(site.queue, connection=site.client).get_job_ids() == []


def test_a_ticket_between_pop_and_start_is_swept_at_the_second_sight(site: Site) -> None:
    ticket = site.write_ticket(1)
    site.client.lmove(f"rq:queue:{site.queue}", f"rq:queue:{site.queue}:intermediate")
    leftovers = Leftovers(site.client, site.queue)
    assert leftovers.run_once() == 0
    assert site.between() == [ticket.encode()]
    assert leftovers.run_once() == 1
    assert site.between() == []
    assert not site.client.exists(f"rq:job:{ticket}")


# --- the contract with rq ---


def parameters(function: Callable[..., object]) -> list[str]:
    return [name for name in inspect.signature(function).parameters if name != "self"]


@pytest.mark.parametrize(
    ("owner", "name", "expected"),
    [
        (
            BaseWorker,
            "work",
            [
                "burst",
                "logging_level",
                "date_format",
                "log_format",
                "max_jobs",
                "max_idle_time",
                "with_scheduler",
                "dequeue_strategy",
            ],
        ),
        (BaseWorker, "bootstrap", ["logging_level", "date_format", "log_format"]),
        (BaseWorker, "_install_signal_handlers", []),
        (BaseWorker, "check_for_suspension", ["burst"]),
        (BaseWorker, "dequeue_job_and_maintain_ttl", ["timeout", "max_idle_time"]),
        (BaseWorker, "heartbeat", ["timeout", "pipeline"]),
        (BaseWorker, "teardown", []),
        (BaseWorker, "register_death", []),
        (BaseWorker, "serialize", []),
        (BaseWorker, "set_state", ["state", "pipeline"]),
        (BaseWorker, "cleanup_execution", ["job", "pipeline", "execution"]),
        (BaseWorker, "increment_successful_job_count", ["pipeline"]),
        (BaseWorker, "_set_ip_address", ["connection"]),
        (SimpleWorker, "execute_job", ["job", "queue"]),
        (
            Queue,
            "dequeue_any",
            ["queues", "timeout", "connection", "job_class", "serializer", "death_penalty_class"],
        ),
        (Queue, "lmove", ["connection", "queue_key", "timeout"]),
        (Job, "restore", ["raw_data"]),
        (Job, "prepare_for_execution", ["worker_name", "pipeline"]),
        (Job, "send_webhooks", ["status", "exc_string"]),
        (Execution, "create", ["job", "ttl", "pipeline", "worker_name"]),
        (Execution, "from_composite_key", ["composite_key", "connection"]),
    ],
)
def test_rq_has_the_hooks_that_we_replace_or_call(owner: type, name: str, expected: list[str]) -> None:
    assert parameters(getattr(owner, name)) == expected


@pytest.mark.parametrize(
    "name", ["func", "instance", "success_callback", "failure_callback", "stopped_callback"]
)
def test_rq_takes_code_from_these_properties_of_a_job_only(name: str) -> None:
    assert isinstance(getattr(Job, name), property)
    assert getattr(TicketJob, name) is not getattr(Job, name)


def test_rqs_loop_calls_no_step_that_could_end_a_slot() -> None:
    """`work` ends at the first error it does not know; each of its steps is one of ours."""
    called = set(inspect.getsource(BaseWorker.work).replace("(", " ").replace(",", " ").split())
    ours = {
        "bootstrap",
        "_install_signal_handlers",
        "check_for_suspension",
        "should_run_maintenance_tasks",
        "dequeue_job_and_maintain_ttl",
        "execute_job",
        "heartbeat",
        "teardown",
    }
    not_reached = {"_start_scheduler", "run_maintenance_tasks"}
    steps = {
        word.removeprefix("self.").rstrip(":)")
        for word in called
        if word.startswith("self.")
        and callable(getattr(BaseWorker, word.removeprefix("self.").rstrip(":)"), None))
    }
    assert steps <= ours | not_reached
    assert all(name in vars(SlotWorker) for name in ours)


def test_rqs_keys_are_those_that_our_scripts_write(namespace: str) -> None:
    keys = Keys(namespace, tickets.RQ_PREFIX)
    assert keys("ticket", "a-1") == Job.key_for("a-1")
    assert keys("tickets", "q") == Queue.redis_queue_namespace_prefix + "q"
    assert keys("rq_queues") == Queue.redis_queues_keys


def test_a_ticket_is_a_job_to_rq(site: Site) -> None:
    """All fields that `rq.job.Job.restore` insists on, in the formats it reads."""
    ticket = site.write_ticket(1)
    job = Job.fetch(ticket, connection=site.client)
    assert (job.origin, job.timeout, job.result_ttl) == (site.queue, tickets.TIMEOUT, 0)
    assert (job.func_name, job.args, job.kwargs) == (tickets.ENTRY, [], {})
    assert job.get_status() is JobStatus.QUEUED
    assert job.created_at is not None
    queue = TicketQueue(site.queue, connection=site.client)
    assert queue.get_job_ids() == [ticket]
    assert site.queue in [q.name for q in Queue.all(connection=site.client)]
