"""What the global options name: a server, a namespace, an instance."""

from __future__ import annotations

from dataclasses import dataclass

import click


@dataclass(frozen=True)
class Target:
    """The object of every command's context. Making one connects to nothing."""

    url: str | None = None
    namespace: str = "tenure"
    instance: str = "default"
    #: Whether somebody has said which instance is meant.
    names_instance: bool = False


#: Decorates a command: its first argument is the target. A command run without the group gets the defaults.
pass_target = click.make_pass_decorator(Target, ensure=True)
