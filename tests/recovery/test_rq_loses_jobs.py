"""G10: nothing depends on RQ keeping a job. G18: nothing in RQ's keys is imported, unpickled or evaluated."""

from __future__ import annotations

import os
import pickle
import signal
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.jobs import work
from tests.processes import Site

LIMIT = 60


def queue_of(site: Site) -> str:
    return site.store.sessions.view().queues[0].name


def delete_from_list(site: Site, queue: str, ticket: str) -> None:
    site.raw.lrem(f"rq:queue:{queue}", 0, ticket)


def push_twice(site: Site, queue: str, ticket: str) -> None:
    site.raw.rpush(f"rq:queue:{queue}", ticket)


def mark_failed(site: Site, queue: str, ticket: str) -> None:
    site.raw.hset(f"rq:job:{ticket}", "status", "failed")
    site.raw.zadd(f"rq:failed:{queue}", {ticket: 9999999999})
    site.raw.lrem(f"rq:queue:{queue}", 0, ticket)


def remove_hash(site: Site, queue: str, ticket: str) -> None:
    site.raw.delete(f"rq:job:{ticket}")


def empty_queue(site: Site, queue: str, ticket: str) -> None:
    site.raw.delete(f"rq:queue:{queue}")


@pytest.mark.parametrize("harm", [delete_from_list, push_twice, mark_failed, remove_hash, empty_queue])
def test_an_execution_finishes_whatever_happens_to_its_ticket(
    site: Site, harm: Callable[[Site, str, str], None]
) -> None:
    """The one slot is busy while the tickets are harmed, so that they lie in RQ's queue."""
    site.scheduler()
    site.worker(slots=1)
    busy = site.client.start(work.patience, "a")
    site.until(lambda: site.entries("start", task="patient"), "the slot is busy")
    handles = [site.client.start(work.chain, 2) for _ in range(3)]
    queue = queue_of(site)
    tickets = [raw.decode() for raw in site.raw.lrange(f"rq:queue:{queue}", 0, -1)]
    assert len(tickets) == 3

    for ticket in tickets:
        harm(site, queue, ticket)
    site.open_gate("a")

    assert busy.result(LIMIT) == [2, 1, 3]
    for handle in handles:
        assert handle.result(LIMIT) == 2


def test_a_ticket_lost_with_the_slot_that_had_just_popped_it_is_made_up_for(site: Site) -> None:
    """The server hands the ticket to a stopped slot, which is then killed: RQ has lost the job for good."""
    site.scheduler()
    agent = site.worker(slots=1)
    assert site.client.start(work.chain, 1).result(LIMIT) == 1
    queue = queue_of(site)
    site.until(lambda: site.store.sessions.view().queues[0].idle == 1, "the slot is idle")

    def waits_for_a_ticket() -> bool:
        rows = site.raw.client_list()
        return any("b" in row["flags"] and row["name"].startswith(f"{site.namespace}-") for row in rows)

    # It is idle to the store a moment before it waits again.
    site.until(waits_for_a_ticket, "the slot waits for a ticket")
    (slot,) = agent.children()
    os.kill(slot, signal.SIGSTOP)
    handle = site.client.start(work.chain, 2)
    site.until(lambda: site.raw.llen(f"rq:queue:{queue}") == 0, "the ticket is popped")
    os.kill(slot, signal.SIGKILL)
    assert handle.result(LIMIT) == 2


def write_job(site: Site, queue: str, name: str, **fields: object) -> None:
    client = site.raw
    job = {"origin": queue, "status": "queued", "timeout": 180, "created_at": "2026-11-29T00:00:00.000000Z"}
    client.hset(f"rq:job:{name}", mapping={**job, **fields})
    client.rpush(f"rq:queue:{queue}", name)


def test_hand_written_jobs_neither_run_nor_end_a_worker(site: Site, tmp_path: Path) -> None:
    """G17, G18: os.system by name and by pickle, pickled meta, broken times, unknown fields."""
    site.worker(slots=1)
    assert site.client.start(work.chain, 1).result(LIMIT) == 1
    queue = queue_of(site)
    harm = tmp_path / "harm"
    command = f"touch {harm}"

    class Harmful:
        def __reduce__(self) -> tuple[object, tuple[str]]:
            import os  # noqa: PLC0415  # named only inside the pickle

            return os.system, (command,)

    pickled = pickle.dumps(Harmful())
    prefix = site.namespace
    write_job(site, queue, f"{prefix}-x1", data=pickle.dumps(("os.system", None, (command,), {})))
    write_job(site, queue, f"{prefix}-x2", data=pickled)
    write_job(site, queue, f"{prefix}-x3", data=b"\x94\xa9os.system\xc0\x91\xa4true\x80", meta=pickled)
    write_job(site, queue, f"{prefix}-x4", data=b"\xc1\xff", enqueued_at="yesterday")
    write_job(site, queue, f"{prefix}-x5", data=b"", status="no such status", timeout="soon", surprise="!")
    write_job(site, queue, f"{prefix}-x6", data=b"\x94", success_callback_name="os.system")
    site.raw.rpush(f"rq:queue:{queue}", "bad id { } : .", f"{prefix}-missing")
    site.raw.set(f"rq:job:{prefix}-x7", "not a hash")
    site.raw.rpush(f"rq:queue:{queue}", f"{prefix}-x7")

    assert site.client.start(work.chain, 3).result(LIMIT) == 3
    assert not harm.exists()
    assert site.processes[0].popen.poll() is None
    # The same slot did it: nothing had to be restarted.
    assert len({entry["pid"] for entry in site.entries("end")}) == 1
