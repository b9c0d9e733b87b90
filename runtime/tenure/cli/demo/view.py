"""What people see: lines that stay, and below them, on a terminal, how far it is and who runs what."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from datetime import timedelta
from typing import Final

from rich.console import Console, ConsoleRenderable, Group
from rich.live import Live
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

from tenure.cli.demo.check import Verdict
from tenure.cli.demo.job import Report
from tenure.cli.demo.kills import Missed, Outcome, Takeover
from tenure.cli.demo.watch import Watch, is_map
from tenure.cli.failures import clean
from tenure.cli.output import print_facts, print_table
from tenure.settings import Settings
from tenure.store.events import Event
from tenure.store.stored import StoredExecution

_REFRESHES_PER_SECOND: Final = 8
_BAR_WIDTH: Final = 40
#: Without a terminal, one line for each of these shares of the map.
_STEP_PERCENT: Final = 20
_MARKS: Final = {True: ("ok     ", "bold green"), False: ("WRONG  ", "bold red"), None: ("-      ", "yellow")}


class View:
    """Lines to a console; on a terminal with a live part while `following`."""

    def __init__(self, console: Console) -> None:
        self._console = console
        self._began = time.monotonic()
        self._shown_percent = 0
        self._watch: Watch | None = None

    def seconds(self) -> float:
        """Since the demo began."""
        return time.monotonic() - self._began

    def say(self, text: str, style: str = "") -> None:
        """One line, with the time since the demo began."""
        line = Text(f"{self.seconds():5.1f} s  ", "dim") + Text(clean(text), style)
        self._console.print(line, soft_wrap=True)

    def tell(self, event: Event) -> None:
        """Say what an event means to people, if it does. Called by the thread that follows events."""
        match event.kind:
            case "lost":
                self.say(
                    f"{event.capability} attempt {event.data['attempt']} lost: {event.data['cause']}", "red"
                )
            case "completed" if event.capability is not None and is_map(event.capability):
                self._step()
            case "completed":
                self.say(f"{event.capability} completed", "green")
            case _:
                pass

    @contextmanager
    def following(self, watch: Watch) -> Iterator[None]:
        """Show a live part while this is entered."""
        self._watch = watch
        if not self._console.is_terminal:
            yield
            return
        with Live(
            console=self._console,
            get_renderable=lambda: self._live(watch),
            refresh_per_second=_REFRESHES_PER_SECOND,
            transient=True,
        ):
            yield

    # -- the live part ---------------------------------------------------------------------------------------

    def _live(self, watch: Watch) -> ConsoleRenderable:
        progress = watch.progress()
        bar = Table.grid(padding=(0, 1))
        bar.add_row(
            Text("batches", "bold"),
            ProgressBar(total=max(progress.total, 1), completed=progress.done, width=_BAR_WIDTH),
            Text(f"{progress.done}/{progress.total or '?'}"),
        )
        now = time.monotonic()
        running = Table.grid(padding=(0, 2))
        for run in sorted(watch.running(), key=lambda run: run.at_seconds):
            again = Text(f"attempt {run.attempt}", "yellow") if run.attempt > 1 else Text()
            who = Text(f"{watch.session(run) or ''} slot {run.pid}", "cyan")
            running.add_row(who, Text(run.capability), Text(f"{now - run.at_seconds:.1f} s", "dim"), again)
        return Group(bar, running)

    def _step(self) -> None:
        if self._console.is_terminal or self._watch is None:
            return
        progress = self._watch.progress()
        percent = 100 * progress.done // max(progress.total, 1) // _STEP_PERCENT * _STEP_PERCENT
        if percent > self._shown_percent:
            self._shown_percent = percent
            self.say(f"batches {progress.done}/{progress.total}")


def print_settings(settings: Settings) -> None:
    """The settings that all figures depend on."""
    named = {
        "lease": settings.lease,
        "renewal": settings.renewal,
        "scheduler leadership": settings.leadership,
        "scheduler tick": settings.tick,
    }
    print_facts({"settings": ", ".join(f"{name} {_seconds(value)}" for name, value in named.items())})


def print_report(folder: str, report: Report) -> None:
    """What the index is like."""
    top = ", ".join(f"{count.word} ({count.occurrences:,} in {count.files:,})" for count in report.top)
    largest = f"{report.largest_file} ({report.largest_bytes:,} bytes)" if report.largest_file else ""
    print_facts(
        {
            "folder": folder,
            "cut": ""
            if report.is_complete
            else "the folder is larger than what a demo takes: the first part of it",
            "files": f"{report.files:,} indexed, {report.skipped:,} not text or not readable",
            "words": f"{report.words:,} different ones, {report.occurrences:,} in all",
            "top words": top,
            "largest file": largest,
        }
    )


def print_attempts(execution: StoredExecution) -> None:
    """The attempts that did not complete, with the cause of death of each."""
    rows = [
        (
            str(attempt["capability"]),
            str(attempt["attempt"]),
            str(attempt.get("session") or ""),
            _ran_for(attempt.get("started_at"), attempt["ended_at"]),
            str(attempt["cause"]),
        )
        for attempt in execution.attempts
    ]
    if rows:
        title = "Attempts that did not complete"
        print_table(("task", "attempt", "worker", "ended after", "cause"), rows, title=title)


def print_takeovers(outcomes: Sequence[Outcome]) -> None:
    """How long it took from each kill until the task ran again."""
    takeovers = [each for outcome in outcomes if not isinstance(outcome, Missed) for each in outcome]
    if takeovers:
        title = "Kill -9 to the task's next start"
        print_table(("killed", "task", "took"), list(map(_takeover_row, takeovers)), title=title)


def print_verdicts(console: Console, verdicts: Sequence[Verdict]) -> None:
    """One line for each, that says whether it holds."""
    for verdict in verdicts:
        mark = Text(*_MARKS[verdict.holds])
        console.print(mark + Text(clean(verdict.text)), soft_wrap=True)


def _takeover_row(takeover: Takeover) -> tuple[str, str, str]:
    return takeover.victim, takeover.lost.capability, f"{takeover.seconds:.2f} s"


def _ran_for(started_at: int | None, ended_at: int) -> str:
    return "" if started_at is None else f"{(ended_at - started_at) / 1000:.2f} s"


def _seconds(duration: timedelta) -> str:
    return f"{duration.total_seconds():g} s"
