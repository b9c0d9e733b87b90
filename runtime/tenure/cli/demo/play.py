"""The demo from its first process to its verdict."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final

from rich.console import Console

from tenure import ExecutionError, Handle
from tenure.cli.demo.check import Verdict, check_index, check_ledger, plain_index
from tenure.cli.demo.job import Place, Report, index_folder
from tenure.cli.demo.kills import Kills, Missed, Outcome
from tenure.cli.demo.stage import SETTINGS, DemoFailed, Stage
from tenure.cli.demo.view import (
    View,
    print_attempts,
    print_report,
    print_settings,
    print_takeovers,
    print_verdicts,
)
from tenure.cli.demo.watch import Watch
from tenure.store.stored import StoredExecution

#: More would take longer than anybody watches; the report says that the folder was cut.
LIMIT_BYTES: Final = 64 * 1024 * 1024


def play(folder: Path, stage: Stage, console: Console) -> bool:
    """Run it; returns whether everything holds.

    Raises:
        DemoFailed: it did not come to an end.
    """
    view = View(console)
    print_settings(SETTINGS)
    view.say("starting a server, a scheduler, and the agents of pools small (2 x 2 slots) and large (1 slot)")
    stage.set_up()
    place = Place(folder=folder, workspace=stage.folder, limit_bytes=LIMIT_BYTES)
    handle = stage.client.start(index_folder, place)
    view.say(f"execution {handle.id} started: an index of {folder}")
    watch = Watch(handle=handle, stage=stage, ledger=place.ledger, tell=view.tell)
    with view.following(watch):
        kills = Kills(stage=stage, watch=watch, say=lambda text: view.say(text, "bold"))
        outcomes = [kills.kill_slot(), kills.kill_agent("small-c")]
        watch.until_over()
    report = _result(handle)
    execution = handle.snapshot()
    view.say("now the same in one process, to compare")
    plain = plain_index(folder, LIMIT_BYTES)
    print_report(str(folder), report)
    print_attempts(execution)
    print_takeovers(outcomes)
    verdicts = [
        check_index(report.sha256, plain),
        *check_ledger(watch.lines(), execution),
        *_check_kills(outcomes, execution),
    ]
    print_verdicts(console, verdicts)
    console.print(f"{view.seconds():.1f} s in all")
    return all(verdict.holds is not False for verdict in verdicts)


def _result(handle: Handle) -> Report:
    try:
        result = handle.result(timeout=1)
    except ExecutionError as error:
        raise DemoFailed(str(error)) from error
    assert isinstance(result, Report)  # noqa: S101  # as the recipe declares it
    return result


def _check_kills(outcomes: Sequence[Outcome], execution: StoredExecution) -> Iterator[Verdict]:
    """Whether what was killed is on record with a cause, and was completed by another run."""
    recorded = {(attempt["capability"], attempt["token"]) for attempt in execution.attempts}
    for outcome in outcomes:
        if isinstance(outcome, Missed):
            text = (
                f"{outcome.victim} was to be killed, but there was no batch left to hit: try a larger folder"
            )
            yield Verdict(None, text)
            continue
        for takeover in outcome:
            lost = takeover.lost
            on_record = (lost.capability, lost.token) in recorded
            completed = execution.records[lost.capability]["status"] == "completed"
            yield Verdict(
                on_record and completed,
                f"{lost.capability} was lost with {takeover.victim} and completed by another run",
            )
