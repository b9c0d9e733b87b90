"""Whatever is pressed, executions finish, with the right result, and nothing runs twice (G10)."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from rq.job import Job
from rq.job_lifecycle import record_job_failure
from rq.registry import FailedJobRegistry

from tests.dashboard.conftest import REGISTRIES, Busy, Dashboard


def fail(busy: Busy, ticket: str) -> None:
    """Let RQ hold a ticket for failed, as its own sweep does with jobs that say how long."""
    client = busy.site.raw
    client.hset(f"rq:job:{ticket}", "failure_ttl", 3600)
    job = Job.fetch(ticket, connection=client)
    with client.pipeline() as pipe:
        record_job_failure(job, "Moved to FailedJobRegistry, due to AbandonedJobError", pipe)
        pipe.execute()
    client.lrem(f"rq:queue:{busy.queue}", 0, ticket)


def failed(busy: Busy) -> list[str]:
    return FailedJobRegistry(busy.queue, connection=busy.site.raw).get_job_ids(cleanup=False)


def empty_the_queue(busy: Busy, dashboard: Dashboard) -> None:
    assert dashboard.press(f"/queue/{busy.queue}/queued/empty").data == {"status": "OK"}
    assert busy.tickets == [] or len(busy.tickets) == 3  # the scheduler may have been quick


def empty_every_registry(busy: Busy, dashboard: Dashboard) -> None:
    for registry in REGISTRIES:
        assert dashboard.press(f"/queue/{busy.queue}/{registry}/empty").data == {"status": "OK"}


def delete_what_waits(busy: Busy, dashboard: Dashboard) -> None:
    for ticket in busy.tickets:
        assert dashboard.press(f"/job/{ticket}/delete").data == {"status": "OK"}


def delete_what_runs(busy: Busy, dashboard: Dashboard) -> None:
    assert dashboard.press(f"/job/{busy.running}/delete").data == {"status": "OK"}
    workers = dashboard.get("/0/data/workers.json").data["workers"]
    assert [worker["current_job"] for worker in workers if worker["queues"] == [busy.queue]] == ["idle"]


def compact(busy: Busy, dashboard: Dashboard) -> None:
    before = busy.tickets
    busy.site.raw.rpush(f"rq:queue:{busy.queue}", f"{busy.site.namespace}-stale")
    assert dashboard.press(f"/queue/{busy.queue}/compact").data == {"status": "OK"}
    assert busy.tickets == before


def requeue_what_has_not_failed(busy: Busy, dashboard: Dashboard) -> None:
    for ticket in [busy.running, *busy.tickets]:
        refused = dashboard.press(f"/job/{ticket}/requeue")
        assert refused.status == 409
        assert "failed" in refused.body


def requeue_what_rq_has_failed(busy: Busy, dashboard: Dashboard) -> None:
    first, *_ = busy.tickets
    fail(busy, first)
    assert dashboard.get(f"/0/data/job/{first}.json").data["status"] == "failed"
    assert dashboard.press(f"/job/{first}/requeue").data == {"status": "OK"}
    assert first in busy.tickets
    assert dashboard.get(f"/0/data/job/{first}.json").data["status"] == "queued"


def requeue_what_runs_and_rq_has_failed(busy: Busy, dashboard: Dashboard) -> None:
    running = busy.running
    fail(busy, running)
    assert dashboard.press(f"/job/{running}/requeue").data == {"status": "OK"}


def requeue_all(busy: Busy, dashboard: Dashboard) -> None:
    for ticket in busy.tickets:
        fail(busy, ticket)
    page = dashboard.get(f"/0/data/jobs/{busy.queue}/failed/8/asc/1.json").data
    assert {"AbandonedJobError" in job["exc_info"] for job in page["jobs"]} == {True}
    assert dashboard.press(f"/requeue/{busy.queue}").data == {"status": "OK", "count": 3}
    assert failed(busy) == []


def everything_twice(busy: Busy, dashboard: Dashboard) -> None:
    for _ in range(2):
        delete_what_waits(busy, dashboard)
        empty_every_registry(busy, dashboard)
        assert dashboard.press(f"/requeue/{busy.queue}").status == 200
        assert dashboard.press(f"/queue/{busy.queue}/compact").status == 200


PRESSED = [
    empty_the_queue,
    empty_every_registry,
    delete_what_waits,
    delete_what_runs,
    compact,
    requeue_what_has_not_failed,
    requeue_what_rq_has_failed,
    requeue_what_runs_and_rq_has_failed,
    requeue_all,
    everything_twice,
]


@pytest.mark.parametrize("pressing", PRESSED)
def test_what_is_pressed_harms_no_execution(
    pressing: Callable[[Busy, Dashboard], None], busy: Busy, dashboard: Dashboard
) -> None:
    pressing(busy, dashboard)
    busy.finish()
    assert failed(busy) == []


def test_a_requeued_ticket_is_an_exact_ticket_and_leaves_nothing(busy: Busy, dashboard: Dashboard) -> None:
    """RQ itself would add fields that no ticket has; slots put such a job aside and keep it for ever."""
    ticket, other, *_ = busy.tickets
    fail(busy, ticket)
    dashboard.press(f"/job/{ticket}/requeue")
    client = busy.site.raw
    assert client.hkeys(f"rq:job:{ticket}") == client.hkeys(f"rq:job:{other}")
    for field in ("data", "timeout", "status", "failure_ttl", "result_ttl", "origin", "description"):
        assert client.hget(f"rq:job:{ticket}", field) == client.hget(f"rq:job:{other}", field)
    assert client.ttl(f"rq:job:{ticket}") == -1
    busy.finish()
    busy.site.until(lambda: not client.exists(f"rq:job:{ticket}"), "the ticket is spent")
    assert client.llen(f"rq:poison:{busy.queue}") == 0
    assert client.keys(f"rq:results:{ticket}") == []


def test_what_is_gone_cannot_be_pressed(dashboard: Dashboard) -> None:
    assert dashboard.press("/job/none/requeue").status == 404
    assert dashboard.press("/job/none/delete").data == {"status": "ERROR"}


def test_a_link_presses_nothing(busy: Busy, dashboard: Dashboard) -> None:
    """rq-dashboard would requeue for whoever loads an image of that address."""
    ticket, *_ = busy.tickets
    fail(busy, ticket)
    assert dashboard.get(f"/requeue/{busy.queue}").status == 405
    assert failed(busy) == [ticket]


def test_a_page_of_somebody_else_presses_nothing(busy: Busy, dashboard: Dashboard) -> None:
    path = f"/queue/{busy.queue}/queued/empty"
    assert dashboard.press(path, Origin="http://elsewhere.example").status == 403
    assert len(busy.tickets) == 3
    assert dashboard.press(path, Origin=f"http://{dashboard.address}").status == 200
