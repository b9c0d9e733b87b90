"""Every page answers while work runs, and says what runs."""

from __future__ import annotations

import pickle
from collections.abc import Iterator

from tests.dashboard.conftest import REGISTRIES, Busy, Dashboard


def addresses(busy: Busy, job: str) -> Iterator[str]:
    """Pages, and the JSON that they ask for."""
    yield from ("/", "/0/", "/0/view", "/0/view/queues", "/0/view/workers", "/0/view/jobs")
    yield from (
        "/favicon.ico",
        "/static/favicon.ico",
        "/static/css/main.css",
        "/static/js/jquery-3.5.1.min.js",
    )
    yield from ("/0/data/queues.json", "/0/data/workers.json")
    yield from (f"/0/view/job/{job}", f"/0/data/job/{job}.json")
    for registry in REGISTRIES:
        for order in ("asc", "dsc"):
            yield f"/0/view/jobs/{busy.queue}/{registry}/8/{order}/1"
            yield f"/0/data/jobs/{busy.queue}/{registry}/8/{order}/1.json"


def test_every_page_answers_while_a_task_runs_and_others_wait(busy: Busy, dashboard: Dashboard) -> None:
    answers = {
        path: dashboard.get(path) for job in (busy.running, busy.tickets[0]) for path in addresses(busy, job)
    }
    assert {path: a.body for path, a in answers.items() if a.status != 200} == {}
    busy.finish()
    after = {path: dashboard.get(path) for path in addresses(busy, "none") if "/job/" not in path}
    assert {path: a.body for path, a in after.items() if a.status != 200} == {}


def test_the_running_job_is_titled_by_recipe_capability_and_attempt(busy: Busy, dashboard: Dashboard) -> None:
    job = dashboard.get(f"/0/data/job/{busy.running}.json").data
    assert job["description"] == "patience 1:patient attempt 1"
    assert job["status"] == "started"
    (started,) = dashboard.get(f"/0/data/jobs/{busy.queue}/started/8/asc/1.json").data["jobs"]
    assert started["description"] == job["description"]
    workers = dashboard.get("/0/data/workers.json").data["workers"]
    (worker,) = [worker for worker in workers if worker["queues"] == [busy.queue]]
    assert worker["current_job"]["description"] == job["description"]
    # This is what the workers page shows as text; RQ would name the function, which is the same for all.
    assert worker["current_job"]["call_string"] == job["description"]
    assert worker["state"] == "busy"


def test_waiting_jobs_are_titled_and_counted(busy: Busy, dashboard: Dashboard) -> None:
    queues = {queue["name"]: queue for queue in dashboard.get("/0/data/queues.json").data["queues"]}
    assert queues[busy.queue]["count"] == 3
    assert queues[busy.queue]["started_job_registry_count"] == 1
    assert queues[busy.queue]["failed_job_registry_count"] == 0
    waiting = dashboard.get(f"/0/data/jobs/{busy.queue}/queued/8/asc/1.json").data["jobs"]
    assert [job["id"] for job in waiting] == busy.tickets
    assert {job["description"] for job in waiting} == {"chain attempt 1"}


def test_the_title_follows_the_slot_from_task_to_task(busy: Busy, dashboard: Dashboard) -> None:
    """A ticket is a place on a slot: what runs there next has its own title, attempt included."""
    job = busy.running
    busy.site.raw.hset(f"rq:job:{job}", "description", "nothing")
    assert dashboard.get(f"/0/data/job/{job}.json").data["description"] == "nothing"
    busy.finish()
    gone = dashboard.get(f"/0/data/job/{job}.json")
    assert gone.status == 404
    assert "gone" in gone.body


class Harmful:
    def __reduce__(self) -> tuple[object, tuple[str]]:
        return exec, ("raise SystemExit('unpickled')",)


HAND_WRITTEN: dict[str, dict[str, object]] = {
    "pickled": {"data": pickle.dumps(Harmful()), "meta": pickle.dumps(Harmful())},
    "result": {"data": b"\x94", "result": pickle.dumps(Harmful())},
    "times": {"data": b"\xc1\xff", "enqueued_at": "yesterday", "created_at": "soon"},
    "status": {"data": b"", "status": "no such status", "timeout": "soon"},
    "callback": {"data": b"\x94", "success_callback_name": "os.system"},
    "bytes": {"data": b"\x94", "meta": b"\x81\xa1a\xc4\x01\xff"},
    "nothing": {"description": "no call at all"},
    "utf8": {"data": b"\x94", "description": b"\xff\xfe", "origin": b"\xff"},
}


def test_jobs_that_are_none_of_ours_are_shown_and_not_unpickled(busy: Busy, dashboard: Dashboard) -> None:
    """G17, G18: also not evaluated in the browser."""
    client, prefix = busy.site.raw, busy.site.namespace
    for name, fields in HAND_WRITTEN.items():
        client.hset(f"rq:job:{prefix}-{name}", mapping={"origin": busy.queue, "status": "queued", **fields})
        client.rpush(f"rq:queue:{busy.queue}", f"{prefix}-{name}")
    client.set(f"rq:job:{prefix}-string", "no hash")
    client.rpush(
        f"rq:queue:{busy.queue}", f"{prefix}-string", "bad id { } : .", b"\xff\xfe", f"{prefix}-missing"
    )

    listed = dashboard.get(f"/0/data/jobs/{busy.queue}/queued/100/asc/1.json").data["jobs"]
    assert {f"{prefix}-{name}" for name in [*HAND_WRITTEN, "string"]} <= {job["id"] for job in listed}
    for name in [*HAND_WRITTEN, "string"]:
        assert dashboard.get(f"/0/view/job/{prefix}-{name}").status == 200
        assert dashboard.get(f"/0/data/job/{prefix}-{name}.json").status == 200
    assert dashboard.get("/0/view/job/bad%20id%20%7B").status == 404
    # Looking changes nothing.
    assert client.llen(f"rq:queue:{busy.queue}") == 3 + len(HAND_WRITTEN) + 4
    assert client.hget(f"rq:job:{prefix}-pickled", "meta") == HAND_WRITTEN["pickled"]["meta"]
    assert dashboard.process.popen.poll() is None
    busy.finish()


NOWHERE = [
    "/1/view/queues",
    "/0/view/jobs/q/lost/8/asc/1",
    "/0/data/jobs/q/queued/0/asc/1.json",
    "/0/data/jobs/q/queued/many/asc/1.json",
    "/0/data/jobs/q/queued/8/asc/0.json",
    "/0/data/job/none.json",
    "/0/view/job/none",
    "/nothing",
]


def test_an_address_that_leads_nowhere_is_not_found(dashboard: Dashboard) -> None:
    assert [dashboard.get(path).status for path in NOWHERE] == [404] * len(NOWHERE)


def test_no_page_has_a_place_for_unescaped_text(busy: Busy, dashboard: Dashboard) -> None:
    for page in ("view/workers", "view/queues", "view/jobs", f"view/job/{busy.running}"):
        lines = dashboard.get(f"/0/{page}").body.splitlines()
        assert [line for line in lines if "<%=" in line and ".html()" not in line] == []
