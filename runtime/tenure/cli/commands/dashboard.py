"""`tenure dashboard`: RQ's side of a namespace in a browser."""

from __future__ import annotations

import ipaddress
import logging
from importlib.util import find_spec
from typing import Final

import click

from tenure.cli.connecting import connect
from tenure.cli.target import Target, pass_target
from tenure.logs import configure
from tenure.store.connection import without_password

_EXTRA: Final = ("rq_dashboard", "six")


@click.command(short_help="Serve rq-dashboard: queues, slots, and what they run.")
@click.option("--bind", default="127.0.0.1", show_default=True, help="Address to listen on.")
@click.option(
    "--port",
    type=click.IntRange(0, 65535),
    default=9181,
    show_default=True,
    help="Port to listen on; 0 takes a free one.",
)
@click.option(
    "--username", envvar="TENURE_DASHBOARD_USERNAME", show_envvar=True, help="Ask for this user name."
)
@click.option(
    "--password", envvar="TENURE_DASHBOARD_PASSWORD", show_envvar=True, help="Ask for this password."
)
@click.option("--insecure", is_flag=True, help="Let anybody in who reaches an address other than loopback.")
@click.option("--verbose", is_flag=True, help="Log every request.")
@pass_target
def dashboard(
    target: Target,
    *,
    bind: str,
    port: int,
    username: str | None,
    password: str | None,
    insecure: bool,
    verbose: bool,
) -> None:
    """Serve rq-dashboard until SIGTERM or Ctrl-C.

    It shows RQ's side of the server: queues, slots and tickets, of all namespaces. Its buttons harm no
    execution: a ticket that is deleted is made up for, one that is requeued finds its work or nothing to do.

    It speaks HTTP without TLS. Beyond this machine, put a proxy with TLS in front of it.
    """
    _check_exposure(bind, username, password, insecure=insecure)
    _check_installed()
    # Only now: both load Flask, which without the extra is not there.
    from tenure.dashboard.app import Login, make_app  # noqa: PLC0415
    from tenure.dashboard.serving import serve  # noqa: PLC0415

    configure(logging.INFO if verbose else logging.WARNING)
    login = Login(username, password) if username and password else None
    with connect(target) as client:
        app = make_app(client.store, login=login)
        try:
            serve(app, bind=bind, port=port, on_ready=lambda address: _announce(client.store.url, address))
        except OSError as error:
            raise click.ClickException(
                f"{bind}:{port} cannot be listened on: {error.strerror or error}; "
                "give another with --bind or --port"
            ) from error


def _check_exposure(bind: str, username: str | None, password: str | None, *, insecure: bool) -> None:
    if bool(username) != bool(password):
        raise click.UsageError("--username and --password go together; one of them is missing or empty")
    if not (username or insecure or _is_loopback(bind)):
        raise click.UsageError(
            f"--bind {bind} can be reached from other machines; give --username and --password, "
            "or --insecure to let anybody in"
        )


def _is_loopback(bind: str) -> bool:
    try:
        return ipaddress.ip_address(bind).is_loopback
    except ValueError:
        return bind == "localhost"


def _check_installed() -> None:
    missing = [name for name in _EXTRA if find_spec(name) is None]
    if missing:
        raise click.ClickException(
            f"the dashboard is not installed ({missing[0]} is missing); run: pip install 'tenure[dashboard]'"
        )


def _announce(url: str, address: str) -> None:
    click.echo(f"dashboard of {without_password(url)} on {address}", err=True)
