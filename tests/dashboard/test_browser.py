"""The pages in a real browser: it runs their scripts, which ask for the JSON and fill the tables."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from collections.abc import Callable
from html import unescape
from pathlib import Path

import pytest

from tests.dashboard.conftest import Busy, Dashboard

#: Root needs `--no-sandbox`; the rest keeps it from talking to anybody but the dashboard.
FLAGS = [
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
]
#: Milliseconds of the page's own time, in which its first requests are answered and drawn.
PAGE_TIME = 3000

Browse = Callable[[str], str]


@pytest.fixture(scope="session")
def chromium() -> str:
    found = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
    if found is None:
        reason = "needs Chromium, on Debian: apt-get install chromium"
        if os.environ.get("CI") == "true":
            pytest.fail(reason)
        pytest.skip(reason)
    return found


@pytest.fixture
def browse(chromium: str, dashboard: Dashboard, tmp_path: Path) -> Browse:
    """What stands on a page once its scripts have run."""

    def dump(path: str) -> str:
        done = subprocess.run(
            [
                chromium,
                *FLAGS,
                f"--user-data-dir={tmp_path / 'browser'}",
                f"--virtual-time-budget={PAGE_TIME}",
                "--dump-dom",
                f"http://{dashboard.address}{path}",
            ],
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )
        assert done.returncode == 0, done.stderr
        return done.stdout

    return dump


def rows(page: str, table: str) -> list[str]:
    """The text of each row in the body of a table. The scripts' templates are no part of one."""
    body = re.search(rf'<table id="{table}".*?<tbody>(.*?)</tbody>', page, flags=re.DOTALL)
    assert body is not None, page
    found = re.findall(r"<tr.*?</tr>", body[1], flags=re.DOTALL)
    return [" ".join(unescape(re.sub(r"<[^>]*>", " ", row)).split()) for row in found]


def test_the_workers_page_says_what_runs(busy: Busy, browse: Browse) -> None:
    shown = rows(browse("/0/view/workers"), "workers")
    (row,) = [row for row in shown if busy.queue in row]
    assert "patience 1:patient attempt 1" in row
    assert not any("Loading" in row for row in shown)


def test_the_queues_page_counts(busy: Busy, browse: Browse) -> None:
    shown = rows(browse("/0/view/queues"), "queues")
    assert f"{busy.queue} 3 0 0 1 0 0 0" in shown


def test_a_queue_page_lists_what_waits(busy: Busy, browse: Browse) -> None:
    shown = rows(browse(f"/0/view/jobs/{busy.queue}/queued/8/asc/1"), "jobs")
    assert len(shown) == 3
    for ticket, row in zip(busy.tickets, shown, strict=True):
        assert row.startswith(f"chain attempt 1 {ticket}")


def test_a_job_page_says_recipe_capability_and_attempt(busy: Busy, browse: Browse) -> None:
    page = browse(f"/0/view/job/{busy.running}")
    data = re.search(r'<div id="job-data".*?<script', page, flags=re.DOTALL)
    assert data is not None
    assert "patience 1:patient attempt 1" in data[0]
    assert "started" in data[0]


def test_text_of_a_job_is_no_code_in_the_browser(busy: Busy, browse: Browse) -> None:
    """G18. rq-dashboard puts a description into the job's page as it is."""
    harm = "<img src=x onerror=\"document.title='evaluated'\">"
    busy.site.raw.hset(f"rq:job:{busy.running}", "description", harm)
    for path in (
        f"/0/view/job/{busy.running}",
        "/0/view/workers",
        f"/0/view/jobs/{busy.queue}/started/8/asc/1",
    ):
        page = browse(path)
        assert "&lt;img src=x" in page
        assert "<title>evaluated" not in page
