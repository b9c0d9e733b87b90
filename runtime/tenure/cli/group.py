"""The command group: a table of our own commands, and those that other packages bring.

The module of a command is imported when the command runs, so `tenure --help` stays quick, and a command that
cannot be loaded takes no other along.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping
from importlib import import_module
from importlib.metadata import EntryPoint, entry_points
from types import MappingProxyType
from typing import Any, Final, NoReturn

import click

from tenure.cli.failures import BrokenCommand, ExitCode, report

#: Packages that build on tenure add commands through this group of entry points.
ENTRY_POINTS: Final = "tenure.commands"

#: Our own commands: where each is, and its line in `tenure --help`.
OWN: Final[Mapping[str, tuple[str, str]]] = MappingProxyType(
    {
        "demo": (
            "tenure.cli.demo.command:demo",
            "Build an index of FOLDER, by default Python's own library, while workers are killed.",
        ),
        "dev": (
            "tenure.cli.commands.dev:dev",
            "Run everything in one terminal, and reload the code when it changes.",
        ),
        "start": ("tenure.cli.commands.start:start", "Start an execution of a recipe."),
        "list": ("tenure.cli.commands.listing:list_command", "List the newest executions."),
        "show": ("tenure.cli.commands.show:show", "Show one execution: its state, tasks and attempts."),
        "events": ("tenure.cli.commands.events:events", "Print what happened to an execution, in order."),
        "explain": ("tenure.cli.commands.explain:explain", "Say why an execution is not moving."),
        "replay": (
            "tenure.cli.commands.replay:replay",
            "Replay an execution, or all that run, with the code as it is now; writes nothing.",
        ),
        "cancel": ("tenure.cli.commands.cancel:cancel", "Cancel an execution."),
        "sessions": ("tenure.cli.commands.sessions:sessions", "List the agents that have registered."),
        "pools": ("tenure.cli.commands.pools:pools", "List what slots there are, and what they can run."),
        "doctor": (
            "tenure.cli.commands.doctor:doctor",
            "Check server, scheduler, workers and stuck work, and say what to do.",
        ),
        "dashboard": (
            "tenure.cli.commands.dashboard:dashboard",
            "Serve rq-dashboard: queues, slots, and what they run.",
        ),
    }
)


class Commands(click.Group):
    """Loads commands by name, and is the edge at which every error becomes a sentence and an exit code."""

    def list_commands(self, ctx: click.Context) -> list[str]:  # noqa: ARG002  # click's signature
        """Names in the order of `--help`."""
        return [*OWN, *_brought()]

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:  # noqa: ARG002  # click's
        """The command, or None if nobody has it."""
        if cmd_name in OWN:
            module, _, attribute = OWN[cmd_name][0].partition(":")
            return _checked(cmd_name, getattr(import_module(module), attribute))
        entry = _brought().get(cmd_name)
        return None if entry is None else _load(entry)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:  # noqa: ARG002  # click's
        """The table of `--help`, for which only the commands of other packages are loaded."""
        rows = [(name, summary) for name, (_, summary) in OWN.items()]
        rows += [(name, _load(entry).get_short_help_str(limit=100)) for name, entry in _brought().items()]
        with formatter.section("Commands"):
            formatter.write_dl(rows)

    def invoke(self, ctx: click.Context) -> Any:
        """Run the command that was named."""
        try:
            result = super().invoke(ctx)
            # What cannot be written any more should be noticed here, and not while the interpreter ends.
            sys.stdout.flush()
        except BrokenPipeError:
            _write_no_more()
            raise SystemExit(ExitCode.PIPE_CLOSED) from None
        except KeyboardInterrupt:
            raise SystemExit(ExitCode.INTERRUPTED) from None
        except (click.ClickException, click.exceptions.Exit, click.Abort):
            raise
        except Exception as error:  # the edge: whatever it is, people get a sentence
            raise SystemExit(report(error)) from error
        return result


class _Broken(click.Command):
    """Stands in for a command that cannot be loaded, and says so when it is run."""

    def __init__(self, entry: EntryPoint, error: Exception) -> None:
        reason = f"{type(error).__name__}: {error}"
        super().__init__(
            entry.name,
            short_help=f"(cannot be loaded: {reason})",
            add_help_option=False,
            context_settings={"ignore_unknown_options": True, "allow_extra_args": True},
        )
        brought_by = f" of {entry.dist.name}" if entry.dist is not None else ""
        self._message = (
            f"command {entry.name}{brought_by} ({entry.value}) cannot be loaded: {reason}; "
            "reinstall the package that brings it"
        )
        self._error = error

    def invoke(self, ctx: click.Context) -> NoReturn:  # noqa: ARG002  # click's signature
        """Raise `BrokenCommand`."""
        raise BrokenCommand(self._message) from self._error


def _brought() -> dict[str, EntryPoint]:
    # Ours cannot be replaced from outside.
    found = {entry.name: entry for entry in entry_points(group=ENTRY_POINTS) if entry.name not in OWN}
    return dict(sorted(found.items()))


def _load(entry: EntryPoint) -> click.Command:
    try:
        return _checked(entry.name, entry.load())
    except Exception as error:  # noqa: BLE001  # whatever somebody else's module does when it is imported
        return _Broken(entry, error)


def _checked(name: str, command: object) -> click.Command:
    if not isinstance(command, click.Command):
        raise TypeError(f"{name} is {type(command).__name__} and no click command")
    return command


def _write_no_more() -> None:
    # The interpreter flushes stdout once more when it ends.
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
