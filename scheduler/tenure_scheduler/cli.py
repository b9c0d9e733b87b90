"""`tenure scheduler`: run one of the schedulers of a namespace until it is told to stop."""

from __future__ import annotations

import logging
import os
import sys
from typing import Final

import click

from tenure.errors import EmbeddedServerError, InvalidInput, StoreUnreachable, UnsuitableServer
from tenure.settings import Settings
from tenure.wiring import NAMESPACE, open_store
from tenure_scheduler.process import build, owner_id, scheduler_settings
from tenure_scheduler.stopping import Stopping

UNREACHABLE: Final = 5


@click.command()
@click.option("--url", help="Server to use, redis://..., default TENURE_REDIS_URL or the embedded one.")
@click.option(
    "--namespace",
    envvar="TENURE_NAMESPACE",
    default=NAMESPACE,
    show_default=True,
    help="Namespace to look after.",
)
@click.option("--name", help="What the log calls this scheduler; by default its host and process id.")
@click.option("--verbose", is_flag=True, help="Log what every duty has done.")
def scheduler(url: str | None, namespace: str, name: str | None, *, verbose: bool) -> None:
    """Keep executions moving: timers, takeovers, placement, lost tickets.

    Run two or more of them: one leads, another takes over when it is gone.
    """
    logging.basicConfig(
        stream=sys.stderr,
        level=logging.DEBUG if verbose else logging.INFO,
        format="%(asctime)s %(levelname)s %(name)s: %(message)s",
    )
    stopping = Stopping()
    stopping.on_signals()
    try:
        settings = scheduler_settings(Settings.from_environment(os.environ))
        store = open_store(url, namespace=namespace, settings=settings, environment=os.environ)
    except InvalidInput as error:
        raise click.UsageError(str(error)) from error
    except (StoreUnreachable, UnsuitableServer, EmbeddedServerError) as error:
        click.echo(f"tenure scheduler: {error}", err=True)
        sys.exit(UNREACHABLE)
    with store:
        build(store, owner=owner_id(name), stopping=stopping).run()
