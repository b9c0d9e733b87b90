"""Every command that takes an id, with an execution of another instance."""

from __future__ import annotations

from importlib import import_module

import click
import pytest

from tenure import Client
from tenure.cli.failures import ExitCode
from tenure.cli.group import OWN
from tenure.wiring import Store
from tests.cli.conftest import Tenure
from tests.client.stored import dump
from tests.samples import publish

#: Arguments after the id, of commands that need more.
MORE: dict[str, list[str]] = {"replay": ["--import", "tests.samples"]}


def takes_an_id(name: str) -> bool:
    module, _, attribute = OWN[name][0].partition(":")
    command: click.Command = getattr(import_module(module), attribute)
    return any(isinstance(one, click.Argument) and one.metavar == "ID" for one in command.params)


COMMANDS = [name for name in OWN if takes_an_id(name)]


@pytest.mark.parametrize("name", COMMANDS)
def test_no_command_finds_it_or_touches_it(tenure: Tenure, store: Store, name: str) -> None:
    Client(store=store, instance="alice").start(publish, "Dune", id="one")
    before = dump(store)

    ended = tenure.here("--instance", "bob", name, "one", *MORE.get(name, []))

    assert ended.code == ExitCode.NOT_FOUND, ended
    assert "execution one is not known to instance bob" in ended.err
    assert ended.out == ""
    assert dump(store) == before
    assert tenure.here("--instance", "alice", name, "one", *MORE.get(name, [])).code == ExitCode.DONE


def test_commands_that_take_an_id_are_found() -> None:
    assert {"show", "events", "explain", "replay", "cancel"} <= set(COMMANDS)
