"""What a route requires, layer by layer, and the form in which that is published.

Nearest wins, property by property: what a recipe declares gives way to the scopes around a call, those to the
call's task, and all of them to the requirements of the job, which were given explicitly (design, section 5).

A demand is published as a text that the store keeps and never reads. So nobody can take one that is broken,
or of a newer version, for an unconstrained one (G17).
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from enum import StrEnum
from functools import lru_cache
from typing import Any, Final, TypeVar

from tenure.errors import Malformed, NewerSchema
from tenure.model.lines import LABEL, RESOURCE
from tenure.model.needs import NO_NEEDS, Needs, overlay


class Layer(StrEnum):
    """Who asks for a property. The order of the members is that of precedence: later wins."""

    RECIPE = "recipe"
    SCOPE = "scope"
    TASK = "task"
    JOB = "job"


T = TypeVar("T")

_AT: Final = "at"
_GROUPS: Final[Mapping[str, str]] = {RESOURCE: "resources", LABEL: "label"}
_KNOWN: Final = frozenset({*Layer, _AT})


@dataclass(frozen=True, slots=True)
class Demand:
    """The needs of one route by layer.

    `scope` is all scopes around a call, merged from outside in; `task` is the task's own declaration under
    what its call adds.
    """

    recipe: Needs = NO_NEEDS
    scope: Needs = NO_NEEDS
    task: Needs = NO_NEEDS
    job: Needs = NO_NEEDS
    #: The coordinates that the scopes were published for. Once those have a result the scopes are spent.
    at: str | None = None
    #: What all layers come to, and its canonical text.
    effective: Needs = field(init=False, compare=False)
    text: str = field(init=False, compare=False)
    #: The form that is stored. Equal demands have equal ones.
    published: str = field(init=False, compare=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "effective", overlay(self.recipe, self.scope, self.task, self.job))
        object.__setattr__(self, "text", str(self.effective))
        object.__setattr__(self, "published", self._publish())

    @property
    def unscoped(self) -> Demand:
        """Without the scopes: what a recipe route is placed and admitted by, since it replays first."""
        return self if self.at is None and self.scope.is_empty else replace(self, scope=NO_NEEDS, at=None)

    def sources(self) -> dict[str, Layer]:
        """Every effective property, as the one-line form names it, with the layer that it comes from."""
        return {name: layer for layer in Layer for name in getattr(self, layer).texts()}

    def _publish(self) -> str:
        layers = {layer.value: getattr(self, layer).to_data() for layer in Layer}
        stored: dict[str, Any] = {name: data for name, data in layers.items() if data}
        if self.at is not None:
            stored[_AT] = self.at
        return json.dumps(stored, separators=(",", ":"))

    @classmethod
    def read(cls, published: object, *, where: str) -> Demand:
        """Read what `published` wrote; `where` names the execution.

        Raises:
            NewerSchema: it says something that this version does not know.
            Malformed: anything else, an absent demand included.
        """
        if published is None:
            raise Malformed(f"{where}: no demand has been published")
        return _named(where, _read_demand, published)


def nested(by_property: Mapping[str, T]) -> dict[str, T | dict[str, T]]:
    """What is told of properties by the names of the one-line form, nested as the needs themselves are."""
    data: dict[str, Any] = {}
    for name, value in by_property.items():
        group = next((group for group in _GROUPS if name.startswith(group)), None)
        if group is None:
            data[name] = value
        else:
            data.setdefault(_GROUPS[group], {})[name.removeprefix(group)] = value
    return data


def write_needs(needs: Needs) -> str:
    """Needs as a text that the store keeps and never reads."""
    return json.dumps(needs.to_data(), separators=(",", ":"))


def read_needs(text: object, *, where: str) -> Needs:
    """Read what `write_needs` wrote. Raises as `Demand.read` does."""
    return _named(where, _read_needs, text)


def _named(where: str, read: Callable[[Any], T], text: object) -> T:
    if not isinstance(text, str):
        raise Malformed(f"{where}: {type(text).__name__} where a text was expected")
    try:
        return read(text)
    except NewerSchema as error:
        raise NewerSchema(f"{where}: {error}") from error
    except Malformed as error:
        raise Malformed(f"{where}: {error}") from error


@lru_cache(maxsize=512)
def _read_demand(text: str) -> Demand:
    stored = _parse(text)
    if unknown := [name for name in stored if name not in _KNOWN]:
        raise NewerSchema(f"the demand has the unknown layer {unknown[0]!r}; it may be of a newer version")
    if empty := [name for name, data in stored.items() if data in ({}, None, "")]:
        raise Malformed(f"the demand says nothing under {empty[0]!r}")
    at = stored.pop(_AT, None)
    if at is not None and not isinstance(at, str):
        raise Malformed(f"the coordinates of its scopes are {type(at).__name__}")
    return Demand(**{name: Needs.from_data(data) for name, data in stored.items()}, at=at)


@lru_cache(maxsize=512)
def _read_needs(text: str) -> Needs:
    return Needs.from_data(_parse(text))


def _parse(text: str) -> dict[str, Any]:
    try:
        stored = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise Malformed(f"it cannot be read ({error})") from error
    if not isinstance(stored, dict):
        raise Malformed(f"it is {type(stored).__name__} where a mapping was expected")
    return stored
