"""`tenure doctor`: look at everything that executions rely on, and say what to do about what is wrong."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator, Sequence
from contextlib import closing
from typing import Any

import click

from tenure.cli.doctor import namespace, server, waiting
from tenure.cli.doctor.findings import Finding, Level
from tenure.cli.failures import ExitCode
from tenure.cli.locating import located
from tenure.cli.output import Cell, json_option, print_json, print_table
from tenure.cli.target import Target, pass_target
from tenure.errors import StoreUnreachable, UnsuitableServer
from tenure.settings import Settings
from tenure.store.checkup import examine_namespace, examine_server
from tenure.store.connection import connect, without_password
from tenure.wiring import open_store

_STYLES = {Level.OK: "green", Level.WARNING: "yellow", Level.FAILED: "red"}


@click.command(short_help="Check server, scheduler, workers and stuck work, and say what to do.")
@json_option
@pass_target
def doctor(target: Target, *, as_json: bool) -> None:
    """Check the server, the scheduler, the workers and what waits; changes nothing.

    Exit code 0 if nothing has failed (warnings may be there), 1 if something has, 5 if no server answers.
    """
    with located(target) as url:
        findings, code = _examine(url, target)
    if as_json:
        print_json(_data(findings))
    else:
        print_table(["check", "is", "found", "what to do"], [_row(finding) for finding in findings])
    sys.exit(code)


def _examine(url: str, target: Target) -> tuple[Sequence[Finding], ExitCode]:
    findings: list[Finding] = []
    try:
        findings.extend(_findings(url, target))
    except (StoreUnreachable, UnsuitableServer) as error:
        found = f"{without_password(url)}: {str(error).partition('; ')[0]}"
        advice = (
            "start it, or correct its URL (--url or TENURE_REDIS_URL); none stands for the embedded server"
        )
        findings.append(Finding.failed("reachable", found, advice))
        return findings, ExitCode.UNREACHABLE
    failed = any(finding.level is Level.FAILED for finding in findings)
    return findings, ExitCode.FAILED if failed else ExitCode.DONE


def _findings(url: str, target: Target) -> Iterator[Finding]:
    settings = Settings.from_environment(os.environ)
    with closing(connect(url)) as client:
        reading = examine_server(client)
    yield from server.examine(reading, url, settings)
    if not server.is_usable(reading.info, url):
        return
    with open_store(url, namespace=target.namespace, settings=settings) as store:
        state = examine_namespace(store.client, store.keys)
        yield from namespace.examine(state, store.sessions.list(), target.namespace)
        if state.live:
            yield from waiting.examine(store, state.now)


def _data(findings: Sequence[Finding]) -> dict[str, Any]:
    return {
        "checks": [
            {"check": f.check, "is": f.level.value, "found": f.found, "advice": f.advice or None}
            for f in findings
        ]
    }


def _row(finding: Finding) -> list[str | Cell]:
    level = Cell(finding.level.value, _STYLES[finding.level])
    return [finding.check, level, finding.found, finding.advice]
