"""`tenure start`: from a recipe's name and words on a command line to an execution."""

from __future__ import annotations

import inspect
import json
import re
from collections.abc import Sequence
from typing import Any, Final, NoReturn

import click

from tenure.cli.connecting import connect
from tenure.cli.importing import import_option, look_here
from tenure.cli.output import jsonable, on_terminal
from tenure.cli.target import Target, pass_target
from tenure.client.client import Client
from tenure.client.starting import DEFAULT, HIGHEST, LOWEST
from tenure.engine.definitions import Definitions, RecipeDefinition, load_modules
from tenure.errors import InvalidInput, UnknownRecipe
from tenure.model.duration import parse_duration
from tenure.model.needs import Needs

_KEYWORD: Final = re.compile(r"([A-Za-z_][A-Za-z0-9_]*)=(.*)", re.DOTALL)
#: What begins like this was meant as JSON, so that a slip in it is not stored as text.
_JSON_BEGINNINGS: Final = ("{", "[", '"')
#: What an argument cannot be called, since it would be taken for an option of the start.
_OPTIONS: Final = frozenset(
    name for name, one in inspect.signature(Client.start).parameters.items() if one.kind is one.KEYWORD_ONLY
)


@click.command(short_help="Start an execution of a recipe.")
@click.argument("recipe")
@click.argument("arguments", nargs=-1)
@import_option("A module with recipes, also from the current folder. May be repeated.")
@click.option(
    "--id", "execution", help="A name for it: starting it again with the same input changes nothing."
)
@click.option("--key", help="A key of your own, of any text: starting again with it changes nothing either.")
@click.option("--delay", help="Begin only after this long: 90s, 10m, 1h30m.")
@click.option("--deadline", help="Fail it if it has not ended after this long.")
@click.option(
    "--priority", type=int, default=DEFAULT, show_default=True, help=f"{LOWEST} (last) to {HIGHEST} (first)."
)
@click.option("--needs", help=f"What its tasks need, before all declarations: {Needs.example}")
@click.option("--correlation", help="To find related executions by; the id by default.")
@click.option("--wait", is_flag=True, help="Wait for it and print its result; exit 1 if it failed.")
@click.option("--timeout", help="The longest to wait: 90s, 10m, 1h30m.")
@pass_target
def start(
    target: Target,
    *,
    recipe: str,
    arguments: Sequence[str],
    modules: Sequence[str],
    execution: str | None,
    key: str | None,
    delay: str | None,
    deadline: str | None,
    priority: int,
    needs: str | None,
    correlation: str | None,
    wait: bool,
    timeout: str | None,
) -> None:
    """Start an execution of RECIPE (its name, or name@version) and print its id.

    ARGUMENTS are JSON, in order or as key=JSON; a word that is not JSON is text:

    \b
      tenure start --import shop publish Dune chapters=3
      tenure start --import shop order '{"item": "tea", "count": 2}' note='"42"'

    Put -- before arguments that begin with a dash.
    """  # noqa: D301  # click's mark for lines to be left as they are is the character itself
    if timeout is not None and not wait:
        raise click.UsageError("--timeout is for --wait, which is not given")
    seconds = None if timeout is None else parse_duration(timeout, name="--timeout").total_seconds()
    args, kwargs = read_arguments(arguments)
    job_needs = None if needs is None else Needs.parse(needs, source="--needs")
    definition = _find(recipe, modules)
    with connect(target) as client:
        handle = client.start(
            definition,
            *args,
            id=execution,
            key=key,
            delay=delay,
            deadline=deadline,
            needs=job_needs,
            priority=priority,
            correlation_id=correlation,
            **_checked(kwargs),
        )
        if not wait:
            click.echo(handle.id)
            return
        if on_terminal():
            click.echo(f"started {handle.id}", err=True)
        try:
            # Through a handle of its own: the result as it is stored, not as the recipe's types have it.
            result = client.get(handle.id).result(seconds)
        except TimeoutError as error:
            raise TimeoutError(f"{error}; `tenure explain {handle.id}` says why") from error
        click.echo(json.dumps(jsonable(result), indent=2 if on_terminal() else None))


def read_arguments(words: Sequence[str]) -> tuple[list[Any], dict[str, Any]]:
    """Words of a command line as positional and named arguments.

    Raises:
        InvalidInput: JSON with a slip in it, a name given twice, or a positional one after a named one.
    """
    positional: list[Any] = []
    named: dict[str, Any] = {}
    for number, word in enumerate(words, start=1):
        match = _KEYWORD.fullmatch(word)
        if match is None and named:
            raise InvalidInput(
                f"argument {number} ({word!r:.40}) has no name and follows one that has; "
                "write key=VALUE, or put it in front"
            )
        if match is None:
            positional.append(_value(word, f"argument {number}"))
            continue
        name, text = match.groups()
        if name in named:
            raise InvalidInput(f"argument {name!r} is given twice; leave one of them out")
        named[name] = _value(text, f"argument {name!r}")
    return positional, named


def _value(text: str, where: str) -> Any:
    try:
        return json.loads(text, parse_constant=_not_json)
    except ValueError as error:
        if text.lstrip().startswith(_JSON_BEGINNINGS):
            raise InvalidInput(
                f"{where} is no JSON: {error}; to give it as text, write it as a JSON string: "
                f"'{json.dumps(text)}'"
            ) from error
        return text


def _not_json(constant: str) -> NoReturn:
    # Python's reader takes NaN and Infinity for numbers; here they are words like others.
    raise ValueError(f"{constant} is no JSON")


def _checked(kwargs: dict[str, Any]) -> dict[str, Any]:
    if taken := sorted(_OPTIONS & kwargs.keys()):
        raise InvalidInput(
            f"{taken[0]}= cannot be given by name, since it names an option of the start itself; "
            "give that argument by its position"
        )
    return kwargs


def _find(name: str, modules: Sequence[str]) -> RecipeDefinition[Any]:
    look_here()
    definitions = load_modules(modules)
    definition = definitions.latest(name)
    if definition is None:
        raise UnknownRecipe(_unknown(name, definitions))
    return definition


def _unknown(name: str, definitions: Definitions) -> str:
    if not definitions.recipes:
        return f"recipe {name!r} is not known; name its module with --import or in TENURE_IMPORT"
    return f"recipe {name!r} is not known; the modules imported have {', '.join(sorted(definitions.recipes))}"
