"""The command line: `tenure`.

Commands are thin: they read options, ask the client, and print. What they share is beside them, one thing per
module: the group and its exit codes, the store the global options name, plain data and words for what is
stored, tables and JSON.
"""

from __future__ import annotations

import io
import os
import sys
from pathlib import Path

import click
from click.core import ParameterSource

from tenure.cli.group import Commands
from tenure.cli.target import Target


@click.group(cls=Commands, context_settings={"help_option_names": ["-h", "--help"]})
@click.option(
    "--url",
    help="The server: redis://, rediss://, unix:// or sentinel://. [env: TENURE_REDIS_URL; else embedded]",
)
@click.option(
    "--namespace",
    envvar="TENURE_NAMESPACE",
    show_envvar=True,
    default=Target.namespace,
    show_default=True,
    help="The set of keys and queues that clients, workers and schedulers share.",
)
@click.option(
    "--instance", default=Target.instance, show_default=True, help="The owner of the executions meant."
)
@click.version_option(package_name="tenure", prog_name="tenure", message="%(prog)s %(version)s")
@click.pass_context
def cli(context: click.Context, url: str | None, namespace: str, instance: str) -> None:
    """Durable executions on Redis and RQ.

    Exit codes: 0 done, 1 the thing asked about failed, 2 usage, 3 not found, 4 conflict, 5 store unreachable.
    Times in tables are those of this machine's time zone (TZ), in JSON they are UTC.
    With TENURE_DEBUG=1 an error shows where it was raised.
    """
    is_default = context.get_parameter_source("instance") is ParameterSource.DEFAULT
    context.obj = Target(url, namespace, instance, names_instance=not is_default)


def main() -> None:
    """The entry point of the console script."""
    _stand_in_for_what_is_closed()
    if isinstance(sys.stdout, io.TextIOWrapper):
        # Stored text may hold what the terminal's encoding has no character for.
        sys.stdout.reconfigure(errors="backslashreplace")
    cli(prog_name="tenure")


def _stand_in_for_what_is_closed() -> None:
    # No connection should get the number of stdout, and what is printed has to go somewhere.
    for name in ("stdout", "stderr"):
        if getattr(sys, name) is None:
            nowhere = Path(os.devnull).open("w")  # noqa: SIM115  # for as long as the process lives
            os.set_inheritable(nowhere.fileno(), True)
            setattr(sys, name, nowhere)
