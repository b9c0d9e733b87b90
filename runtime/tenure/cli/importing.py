"""`--import`: the modules with the application's code, and where they are looked for."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

import click

F = TypeVar("F", bound=Callable[..., Any])


def import_option(text: str, *, required: bool = False) -> Callable[[F], F]:
    """The option as every command has it; its parameter is `modules`, and `text` its help."""
    return click.option(
        "--import",
        "-i",
        "modules",
        metavar="MODULE",
        multiple=True,
        required=required,
        envvar="TENURE_IMPORT",
        show_envvar=True,
        help=text,
    )


def look_here() -> None:
    """Find modules in the current folder too."""
    here = str(Path.cwd())
    if here not in sys.path:
        # As `python -m` has it. A console script has its own folder there instead.
        sys.path.insert(0, here)
