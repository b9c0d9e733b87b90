"""`tenure dev`: server, scheduler, worker and dashboard in one terminal, with the code as it is now."""

from __future__ import annotations

import os
from collections.abc import Sequence
from importlib.util import find_spec

import click

from tenure.cli.dev.lines import Lines
from tenure.cli.dev.services import environment_of
from tenure.cli.dev.session import DRAIN_SECONDS, Development
from tenure.cli.importing import import_option
from tenure.cli.locating import located
from tenure.cli.processes import Interrupted, Interruptions
from tenure.cli.target import Target, pass_target
from tenure.model.allocation import Allocation
from tenure.model.names import check_pool
from tenure.store.connection import without_password
from tenure.wiring import open_store


@click.command(short_help="Run everything in one terminal, and reload the code when it changes.")
@import_option("Module with tasks and recipes, as `python -m` would name it. May be repeated.", required=True)
@click.option("--pool", default="dev", show_default=True, help="The worker's pool.")
@click.option("--slots", type=click.IntRange(min=1), default=2, show_default=True, help="Tasks at one time.")
@click.option("--allocation", metavar="FACTS", help="What one slot can use, as in cpu=2,memory=4Gi.")
@click.option(
    "--port", type=click.IntRange(0, 65535), default=9181, show_default=True, help="The dashboard's."
)
@click.option(
    "--provisioner",
    metavar="COMMAND|URL",
    envvar="TENURE_PROVISIONER",
    show_envvar=True,
    help="Who is told when an execution needs another worker, as `tenure scheduler` has it.",
)
@click.option("--no-dashboard", is_flag=True, help="Without the dashboard.")
@click.option("--no-reload", is_flag=True, help="Keep the code as it is now.")
@pass_target
def dev(
    target: Target,
    *,
    modules: Sequence[str],
    pool: str,
    slots: int,
    allocation: str | None,
    port: int,
    provisioner: str | None,
    no_dashboard: bool,
    no_reload: bool,
) -> None:
    """Run a scheduler, a worker and the dashboard until Ctrl-C, on the embedded server of this folder.

    Or on the server that --url names. When a source file changes and the new code can be loaded, the worker
    finishes what it can within 3 s (TENURE_DRAIN) and begins again; what it could not finish runs again with
    the new code. Code that cannot be loaded is reported, and the worker goes on with what it has.

    Clients in the same folder need no URL: `tenure start --import MODULE RECIPE`.
    """
    worker = ["worker", check_pool(pool), "--slots", str(slots)]
    worker += [part for module in modules for part in ("--import", module)]
    if allocation is not None:
        worker += ["--allocation", str(Allocation.parse(allocation, source="--allocation"))]
    scheduler = ["scheduler"] if provisioner is None else ["scheduler", f"--provisioner={provisioner}"]
    lines = Lines()
    with Interruptions() as interruptions:
        try:
            with located(target) as url:
                # An unsuitable server is one sentence here, and many lines of several processes otherwise.
                open_store(url, namespace=target.namespace, environment=os.environ).close()
                lines.say("dev", f"server {without_password(url)}, namespace {target.namespace}")
                with Development(
                    modules=modules,
                    scheduler=scheduler,
                    worker=worker,
                    dashboard=None if no_dashboard else _dashboard(port, lines),
                    reload=not no_reload,
                    environment=environment_of(url, target.namespace, TENURE_DRAIN=f"{DRAIN_SECONDS:g}"),
                    lines=lines,
                    interruptions=interruptions,
                ) as development:
                    development.run()
        except Interrupted:
            lines.say("dev", "everything that was started has ended")


def _dashboard(port: int, lines: Lines) -> list[str] | None:
    if find_spec("rq_dashboard") is None:
        lines.say("dev", "without a dashboard; to have one: pip install 'tenure[dashboard]'")
        return None
    return ["dashboard", "--port", str(port)]
