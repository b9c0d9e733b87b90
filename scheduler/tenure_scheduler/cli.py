"""`tenure scheduler`: run one of the schedulers of a namespace until it is told to stop."""

from __future__ import annotations

import logging
import os
from contextlib import ExitStack

import click

from tenure.cli.target import Target, pass_target
from tenure.logs import configure
from tenure.settings import Settings
from tenure.wiring import open_store
from tenure_scheduler.process import build, courier_for, owner_id, scheduler_settings
from tenure_scheduler.provisioner import provisioner_of
from tenure_scheduler.stopping import Stopping

log = logging.getLogger(__name__)


@click.command()
@click.option("--url", help="The server, if not the one that `tenure --url` names.")
@click.option("--namespace", help="The namespace, if not the one that `tenure --namespace` names.")
@click.option("--name", help="What the log calls this scheduler; by default its host and process id.")
@click.option(
    "--provisioner",
    "hook",
    metavar="COMMAND|URL",
    envvar="TENURE_PROVISIONER",
    show_envvar=True,
    help="Who is told when an execution needs a worker that is not there: a command line, which is run "
    "without a shell and gets JSON on its stdin, or a URL to POST it to. Give all schedulers of a namespace "
    "the same; the leader's counts.",
)
@click.option("--verbose", is_flag=True, help="Log what every duty has done.")
@pass_target
def scheduler(
    target: Target,
    url: str | None,
    namespace: str | None,
    name: str | None,
    hook: str | None,
    *,
    verbose: bool,
) -> None:
    """Keep executions moving: retries, takeovers, placement, lost tickets.

    Run two or more: one leads, another takes over when it is gone. SIGTERM and Ctrl-C end it at once.
    """
    configure(logging.DEBUG if verbose else logging.INFO)
    stopping = Stopping()
    stopping.on_signals()
    settings = scheduler_settings(Settings.from_environment(os.environ))
    told = None if hook is None else provisioner_of(hook, timeout=settings.hook)
    with ExitStack() as stack:
        store = stack.enter_context(
            open_store(
                url or target.url,
                namespace=namespace or target.namespace,
                settings=settings,
                environment=os.environ,
            )
        )
        log.info("provisioner: %s", "nobody is told of handoffs and unmet demand" if hook is None else hook)
        carrying = None if told is None else stack.enter_context(courier_for(store, told))
        build(store, owner=owner_id(name), stopping=stopping, courier=carrying).run()
