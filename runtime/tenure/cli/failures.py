"""How an error leaves the process: an exit code, and one sentence that says what to do."""

from __future__ import annotations

import os
import re
import traceback
from collections.abc import Mapping
from enum import IntEnum
from typing import Final

import click

from tenure.errors import (
    EmbeddedServerError,
    ExecutionError,
    ExecutionExists,
    ExecutionNotFound,
    InvalidInput,
    StoreUnreachable,
    TenureError,
    Unconfirmed,
    UnsuitableServer,
)


class ExitCode(IntEnum):
    """What scripts may rely on."""

    DONE = 0
    FAILED = 1
    USAGE = 2
    NOT_FOUND = 3
    CONFLICT = 4
    UNREACHABLE = 5
    #: 128 and the number of the signal, as a shell reports it.
    INTERRUPTED = 130
    PIPE_CLOSED = 141


# The first line that fits counts; everything else has failed.
_CODES: Final[Mapping[type[Exception], ExitCode]] = {
    InvalidInput: ExitCode.USAGE,
    ExecutionNotFound: ExitCode.NOT_FOUND,
    ExecutionExists: ExitCode.CONFLICT,
    StoreUnreachable: ExitCode.UNREACHABLE,
    UnsuitableServer: ExitCode.UNREACHABLE,
    EmbeddedServerError: ExitCode.UNREACHABLE,
    # The server was there and went away before it answered.
    Unconfirmed: ExitCode.UNREACHABLE,
}

# Control characters could repaint the terminal: what an error quotes may come from anywhere.
_CONTROL: Final = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f]")


class BrokenCommand(Exception):
    """A command that another package brings and that cannot be loaded; the message says why."""


def report(error: Exception) -> ExitCode:
    """Say on stderr what happened, with TENURE_DEBUG=1 also where; returns the exit code."""
    show_where(error)
    click.echo(f"Error: {clean(_sentence(error))}", err=True)
    return next((code for kind, code in _CODES.items() if isinstance(error, kind)), ExitCode.FAILED)


def show_where(error: BaseException) -> None:
    """With TENURE_DEBUG=1, say on stderr where it was raised."""
    if os.environ.get("TENURE_DEBUG") == "1":
        traceback.print_exception(error)


def clean(text: str) -> str:
    """`text` without control characters; line breaks and tabs stay."""
    return _CONTROL.sub("\N{REPLACEMENT CHARACTER}", text)


def _sentence(error: Exception) -> str:
    match error:
        case ExecutionNotFound():
            return f"{error}; `tenure list` shows those it has, and --instance names another owner"
        case ExecutionError():
            return f"{error}; `tenure show {error.execution_id}` has the details"
        case TenureError() | TimeoutError() | BrokenCommand():
            return str(error)
        case _:
            return (
                f"unexpected {type(error).__name__}: {error}; "
                "set TENURE_DEBUG=1 to see where it was raised, and report it"
            )
