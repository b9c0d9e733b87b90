"""`tenure demo`: watch an execution survive the death of its workers."""

from __future__ import annotations

import shutil
import signal
import sys
import sysconfig
import tempfile
from pathlib import Path
from typing import Final

import click

from tenure.cli.demo.play import play
from tenure.cli.demo.stage import NAMESPACE, Stage
from tenure.cli.failures import ExitCode, clean, report
from tenure.cli.output import console
from tenure.cli.processes import Interrupted, Interruptions

#: By Ctrl-C and by SIGTERM; see `Interrupted`.
INTERRUPTED: Final = (128 + signal.SIGINT, 128 + signal.SIGTERM)


@click.command()
@click.argument(
    "folder",
    required=False,
    type=click.Path(exists=True, file_okay=False, readable=True, resolve_path=True, path_type=Path),
)
@click.option(
    "--keep", is_flag=True, help="Keep the run's folder: logs, ledger, index and the server's data."
)
def demo(folder: Path | None, *, keep: bool) -> None:
    """Build an index of FOLDER, by default Python's own library, while workers are killed.

    Runs a server, a scheduler and two pools of workers of its own, kills -9 a slot and then a whole worker,
    and checks that the index is right and that nothing completed ran twice. Needs no server and leaves
    nothing behind. Exit code 0 only if everything holds.
    """
    with Interruptions() as interruptions:
        workspace = Path(tempfile.mkdtemp(prefix="tenure-demo-"))
        code = _run(folder or Path(sysconfig.get_path("stdlib")), workspace, interruptions)
        failed = code not in (ExitCode.DONE, *INTERRUPTED)
        if failed:
            _show_logs(workspace)
        if keep or failed:
            click.echo(
                f"kept: {workspace}; look into it with\n"
                f"  TENURE_FOLDER={workspace / 'server'} tenure --namespace {NAMESPACE} list",
                err=True,
            )
        else:
            shutil.rmtree(workspace, ignore_errors=True)
    sys.exit(code)


def _run(folder: Path, workspace: Path, interruptions: Interruptions) -> int:
    try:
        with Stage(workspace, interruptions) as stage:
            holds = play(folder, stage, console())
    except Interrupted as interrupted:
        click.echo(f"{interrupted}: everything that was started has been ended", err=True)
        return interrupted.exit_code
    except Exception as error:  # noqa: BLE001  # the edge: the folder and its logs are kept
        return report(error)
    return ExitCode.DONE if holds else ExitCode.FAILED


def _show_logs(workspace: Path) -> None:
    for log in sorted(workspace.glob("**/*.log")):
        lines = log.read_text(errors="replace").splitlines()[-15:]
        click.echo("\n".join([f"--- {log.name}", *map(clean, lines)]), err=True)
