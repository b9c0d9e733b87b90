"""`tenure worker`: an agent and its slots, from the command line."""

from __future__ import annotations

import logging
import os
import sys
from dataclasses import replace
from typing import Final

import click

from tenure.cli.target import Target, pass_target
from tenure.errors import EmbeddedServerError, InvalidInput, StoreUnreachable, UnsuitableServer
from tenure.logs import configure
from tenure.model.allocation import PREFIX, Allocation
from tenure.model.names import check_pool
from tenure.settings import Settings
from tenure.transport import tickets
from tenure.wiring import open_store
from tenure_workers.agent import Agent
from tenure_workers.plan import Plan

log = logging.getLogger(__name__)

USAGE_EXIT: Final = 2
UNREACHABLE_EXIT: Final = 5


@click.command()
@click.argument("pool")
@click.option(
    "modules",
    "--import",
    "-i",
    multiple=True,
    required=True,
    metavar="MODULE",
    help="Module with tasks and recipes, as `python -m` would name it. May be repeated.",
)
@click.option("--slots", type=click.IntRange(min=1), default=1, show_default=True, help="Tasks at one time.")
@click.option(
    "--allocation",
    metavar="FACTS",
    help="What one slot can use, as in cpu=2,memory=4Gi,label.zone=eu; wins over TENURE_ALLOCATION_*.",
)
@click.option("--name", help="Name of this worker among all; by default a random one.")
@click.option("--url", help="The server, if not the one that `tenure --url` names.")
@click.option("--namespace", help="The namespace, if not the one that `tenure --namespace` names.")
@click.option("--log-level", default="INFO", show_default=True, metavar="LEVEL")
@pass_target
def worker(
    target: Target,
    *,
    pool: str,
    modules: tuple[str, ...],
    slots: int,
    allocation: str | None,
    name: str | None,
    url: str | None,
    namespace: str | None,
    log_level: str,
) -> None:
    """Run tasks and recipes for POOL until SIGTERM or Ctrl-C; a second one does not wait for tasks."""
    try:
        level = _level(log_level)
        plan = Plan(
            pool=check_pool(pool),
            modules=modules,
            slots=slots,
            allocation=_allocation(allocation),
            name=name,
            log_level=level,
        )
        configure(level)
        _warn_of_unproven_digest(plan.allocation)
        sys.exit(_work(plan, url or target.url, namespace or target.namespace))
    except InvalidInput as error:
        _end(error, USAGE_EXIT)
    except (StoreUnreachable, UnsuitableServer, EmbeddedServerError) as error:
        _end(error, UNREACHABLE_EXIT)


def _work(plan: Plan, url: str | None, namespace: str) -> int:
    tickets.install()
    settings = Settings.from_environment(os.environ)
    # The agent's renewals must name what slots hold now, so one is given up when the next is due.
    own = replace(settings, resend=min(settings.resend, settings.renewal))
    with open_store(url, namespace=namespace, settings=own, environment=os.environ) as store:
        return Agent(store, plan, settings).run()


def _allocation(text: str | None) -> Allocation:
    told = Allocation.from_environment(os.environ)
    return told if text is None else told.overlaid_by(Allocation.parse(text, source="--allocation"))


def _warn_of_unproven_digest(allocation: Allocation) -> None:
    """Say once what would make every pinned image wait in vain: only the manifest digest satisfies a pin."""
    image = allocation.image
    if image is None or image.manifest_digest is not None or "@" not in (image.reference or ""):
        return
    # Beside it, since an image is told as one: the option's takes the place of the variables'.
    log.warning(
        "the digest in the image reference %s proves nothing, since it may be that of an index: needs that "
        "pin an image are not met here; add the digest of the manifest that runs here beside it, as "
        "image.manifest_digest=sha256:... in --allocation, or as %sIMAGE_MANIFEST_DIGEST if %sIMAGE told it",
        image.reference,
        PREFIX,
        PREFIX,
    )


def _level(text: str) -> int:
    level = logging.getLevelNamesMapping().get(text.upper())
    if level is None:
        raise InvalidInput(f"--log-level {text!r}: give DEBUG, INFO, WARNING or ERROR")
    return level


def _end(error: Exception, code: int) -> None:
    click.echo(f"Error: {error}", err=True)
    sys.exit(code)
