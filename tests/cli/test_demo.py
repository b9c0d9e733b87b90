"""`tenure demo` as people run it, and the parts its verdict rests on."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
from collections.abc import Sequence
from datetime import UTC, datetime
from hashlib import sha256
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from tenure import TaskContext
from tenure.cli.demo.check import check_ledger, plain_index
from tenure.cli.demo.command import demo
from tenure.cli.demo.job import Place, cut, index_batch, list_batches, merge, report
from tenure.cli.demo.ledger import ENDED, STARTED, LedgerReader, Line
from tenure.cli.demo.words import list_files
from tenure.model.status import ExecutionStatus
from tenure.store.stored import StoredExecution
from tests.waiting import wait_until

LIMIT = 10_000_000


class Context(TaskContext):
    """What a task sees of its lease, without one."""

    def __init__(self) -> None:
        """Nothing to hold."""

    attempt = 1
    fencing_token = 7
    idempotency_key = "default:some:0:task"

    def progress(self, done: float, total: float | None = None, message: str = "") -> None:
        """Nobody looks."""


# -- the command ---------------------------------------------------------------------------------------------


def test_it_survives_both_kills_and_says_so(books: Path, scratch: Path) -> None:
    with run(books, scratch) as done:
        output = done.communicate(timeout=90)[0]
    assert done.returncode == 0, output
    assert "killed by SIGKILL" in output
    assert "its lease lapsed" in output
    assert "ok     the index equals the one built plainly" in output
    assert "ok     no completed task ran again" in output
    assert "ok     every run is an attempt on record" in output
    assert "completed by another run" in output
    assert "WRONG" not in output
    assert list(scratch.iterdir()) == []
    assert processes_of(scratch) == []


def test_no_process_outlives_it_whether_it_is_interrupted_or_killed(books: Path, tmp_path: Path) -> None:
    ends = {signal.SIGINT: 130, signal.SIGTERM: 143, signal.SIGKILL: -signal.SIGKILL}
    for number, code in ends.items():
        scratch = tmp_path / number.name
        scratch.mkdir()
        with run(books, scratch) as started:
            # The last of four processes to start; so there is something to leave behind.
            wait_until(lambda: bool(list(scratch.glob("*/large-a.log"))), 30, "large-a started")  # noqa: B023
            started.send_signal(number)
            assert started.wait(timeout=20) == code
        wait_until(lambda: processes_of(scratch) == [], 10, f"all gone after {number.name}")  # noqa: B023
        if number is not signal.SIGKILL:
            assert list(scratch.iterdir()) == []


@pytest.mark.parametrize("name", ["absent", "a-file"])
def test_what_is_no_folder_is_a_usage_error(name: str, tmp_path: Path) -> None:
    (tmp_path / "a-file").touch()
    result = CliRunner().invoke(demo, [str(tmp_path / name)])
    assert result.exit_code == 2
    assert name in result.output


# -- the job -------------------------------------------------------------------------------------------------


def test_tasks_and_plain_computation_give_the_same_index(tmp_path: Path) -> None:
    books = write_books(tmp_path / "books", count=4)
    place = Place(folder=books, workspace=tmp_path, limit_bytes=LIMIT)
    batches = list_batches(place, Context())
    assert len(batches) > 1
    parts = [index_batch(batch, place, Context()) for batch in batches]
    index = merge(parts, place, Context())
    assert index.sha256 == plain_index(books, LIMIT) == sha256(index.path.read_bytes()).hexdigest()
    told = report(index, place, Context())
    assert told.files == len(list(books.iterdir()))
    assert told.words == len(index.path.read_text().splitlines())


def test_an_index_is_words_with_their_files_and_lines(tmp_path: Path) -> None:
    folder = tmp_path / "folder"
    folder.mkdir()
    (folder / "a.txt").write_text("One fish, two FISH\n\nred fish x\n")
    (folder / "b.txt").write_text("blue_fish")
    place = Place(folder=folder, workspace=tmp_path, limit_bytes=LIMIT)
    (batch,) = list_batches(place, Context())
    index = merge([index_batch(batch, place, Context())], place, Context())
    assert index.path.read_text().splitlines() == [
        "blue\t1:1",
        "fish\t0:1,1,3 1:1",
        "one\t0:1",
        "red\t0:3",
        "two\t0:1",
    ]


def test_an_empty_folder_has_an_empty_index(tmp_path: Path) -> None:
    folder = tmp_path / "folder"
    folder.mkdir()
    place = Place(folder=folder, workspace=tmp_path, limit_bytes=LIMIT)
    assert list_batches(place, Context()) == []
    index = merge([], place, Context())
    assert index.sha256 == plain_index(folder, LIMIT)
    assert report(index, place, Context()).words == 0


def test_only_text_files_are_listed(tmp_path: Path) -> None:
    (tmp_path / "text.txt").write_text("text")
    (tmp_path / "latin.txt").write_bytes("Käse".encode("latin-1"))
    (tmp_path / "image.png").write_bytes(b"\x89PNG\0\0")
    (tmp_path / "link.txt").symlink_to("text.txt")
    (tmp_path / "loop").symlink_to(tmp_path)
    (tmp_path / "__pycache__").mkdir()
    (tmp_path / "__pycache__" / "cache.txt").write_text("cache")
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / os.fsdecode(b"\xff.txt")).write_text("a name that is not Unicode")
    listing = list_files(tmp_path, LIMIT)
    assert [os.fsencode(name) for name, _ in listing.files] == [b"latin.txt", b"text.txt", b"\xff.txt"]
    assert listing.skipped == 1
    assert listing.is_complete


def test_a_folder_that_is_too_large_is_cut_and_says_so(tmp_path: Path) -> None:
    for number in range(4):
        (tmp_path / f"{number}.txt").write_text("x" * 10_000)
    listing = list_files(tmp_path, 30_000)
    assert [name for name, _ in listing.files] == ["0.txt", "1.txt"]
    assert not listing.is_complete


def test_batches_cover_the_listing_once_and_in_order() -> None:
    sizes = [random.Random(7).randrange(50_000) for _ in range(1000)]
    batches = cut(sizes)
    assert 40 <= len(batches) <= 80
    assert [n for batch in batches for n in range(batch.first, batch.end)] == list(range(1000))
    assert [batch.number for batch in batches] == list(range(len(batches)))


# -- the ledger ----------------------------------------------------------------------------------------------


def test_the_ledger_and_the_record_agree() -> None:
    lines = [line(STARTED, 1), line(STARTED, 2), line(ENDED, 2)]
    assert verdicts(lines, completed=2, lost=[1]) == [True, True]


def test_a_run_after_the_recorded_one_is_found() -> None:
    lines = [line(STARTED, 1), line(ENDED, 1), line(STARTED, 2), line(ENDED, 2)]
    assert verdicts(lines, completed=1, lost=[2])[0] is False


def test_a_late_run_under_an_older_lease_is_found() -> None:
    lines = [line(STARTED, 2), line(ENDED, 2), line(STARTED, 1)]
    assert verdicts(lines, completed=2, lost=[1])[0] is False


def test_a_run_that_ended_but_was_not_recorded_may_run_again() -> None:
    lines = [line(STARTED, 1), line(ENDED, 1), line(STARTED, 2), line(ENDED, 2)]
    assert verdicts(lines, completed=2, lost=[1]) == [True, True]


def test_a_run_of_which_nothing_is_recorded_is_found() -> None:
    lines = [line(STARTED, 1), line(STARTED, 2), line(ENDED, 2)]
    assert verdicts(lines, completed=2, lost=[])[1] is False


def test_a_result_that_no_run_has_made_is_found() -> None:
    assert verdicts([line(STARTED, 1)], completed=2, lost=[1])[1] is False


def test_a_line_that_is_being_written_is_read_when_it_is_whole(tmp_path: Path) -> None:
    path = tmp_path / "ledger"
    reader = LedgerReader(path)
    assert reader.read() == []
    path.write_text("started a:b:0:task 1 5 77 1.5\nended a:b:0:ta")
    assert [each.what for each in reader.read()] == [STARTED]
    with path.open("a") as file:
        file.write("sk 1 5 77 2.5\n")
    assert [(each.what, each.capability) for each in reader.read()] == [(ENDED, "0:task")]


# -- what the tests are made of ------------------------------------------------------------------------------


@pytest.fixture
def books(tmp_path: Path) -> Path:
    """Enough text for some twenty batches."""
    return write_books(tmp_path / "books", count=24)


def write_books(folder: Path, count: int) -> Path:
    folder.mkdir()
    chance = random.Random(1)
    words = ["".join(chance.choices("abcdefghij", k=chance.randint(2, 6))) for _ in range(20_000)]
    for number in range(count):
        lines = (" ".join(chance.choices(words, k=10)) for _ in range(1200))
        (folder / f"{number:02d}.txt").write_text("\n".join(lines))
    return folder


@pytest.fixture
def scratch(tmp_path: Path) -> Path:
    """Where a demo keeps what it keeps, so that leftovers show."""
    folder = tmp_path / "scratch"
    folder.mkdir()
    return folder


def run(folder: Path, scratch: Path) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-m", "tenure.cli", "demo", str(folder)],
        env={**os.environ, "TMPDIR": str(scratch)},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )


def processes_of(scratch: Path) -> list[str]:
    """Command lines of all processes that were started by a demo there, itself included."""
    mark = f"TMPDIR={scratch}\0".encode()
    found = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                if mark in (entry / "environ").read_bytes():
                    found.append((entry / "cmdline").read_bytes().replace(b"\0", b" ").decode())
            except OSError:  # it has ended, or is somebody else's
                continue
    return found


def line(what: str, token: int) -> Line:
    return Line(what=what, key="default:some:0:task", attempt=token, token=token, pid=1, at_seconds=0.0)


def verdicts(lines: Sequence[Line], *, completed: int, lost: Sequence[int]) -> list[bool | None]:
    return [verdict.holds for verdict in check_ledger(lines, execution(completed, lost))]


def execution(completed: int, lost: Sequence[int]) -> StoredExecution:
    now = datetime.now(UTC)
    records: dict[str, dict[str, Any]] = {"0:task": {"status": "completed", "token": completed}}
    return StoredExecution(
        instance="default",
        id="some",
        status=ExecutionStatus.COMPLETED,
        recipe="index_folder",
        version="1",
        correlation="some",
        priority_band=4,
        created_at=now,
        started_at=now,
        completed_at=now,
        error=None,
        records=records,
        attempts=[{"capability": "0:task", "token": token, "cause": "killed"} for token in lost],
    )
