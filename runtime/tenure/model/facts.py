"""What needs and allocations have in common: properties, their canonical values, and their texts.

A property is either a fact or left out. The same names are used everywhere: as keyword of the constructor, as
key of the stored form, and, for the members of `resources` and `label`, with a prefix in the one-line form
(`cpu=2,label.zone=eu,resource.example.com/fpga=1`).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from fractions import Fraction
from types import MappingProxyType
from typing import Any, ClassVar, Final, Self

from tenure.errors import InvalidInput, Malformed, NewerSchema
from tenure.model.lines import LABEL, NAME, RESOURCE, check_names, nest, read_pairs
from tenure.model.platforms import parse_platform
from tenure.model.quantity import (
    Quantity,
    format_bytes,
    format_count,
    format_cpu,
    parse_bytes,
    parse_count,
    parse_cpu,
)
from tenure.model.shown import shown

_LABEL_VALUE: Final = re.compile(r"[A-Za-z0-9](?:[A-Za-z0-9._-]{0,61}[A-Za-z0-9])?")
#: What is no counted resource, since it is a property itself.
OWN_NAMES: Final = frozenset({"cpu", "memory", "ephemeral_storage", "ephemeral-storage", "gpu"})


@dataclass(frozen=True, slots=True, init=False, repr=False)
class Facts:
    """The shared part of `Needs` and `Allocation`. None stands for a property that was left out."""

    cpu_millicores: int | None
    memory_bytes: int | None
    ephemeral_storage_bytes: int | None
    gpu: Fraction | None
    resources: Mapping[str, Fraction] = field(hash=False)
    platform: str | None
    label: Mapping[str, str] = field(hash=False)

    #: What the value is called in messages, and an example of its one-line form.
    word: ClassVar[str]
    example: ClassVar[str]
    zero_counts: ClassVar[bool]
    #: The constructor's keywords, and the names of the one-line form.
    properties: ClassVar[tuple[str, ...]]
    names: ClassVar[tuple[str, ...]]

    def _set(
        self,
        *,
        cpu: Quantity | None,
        memory: Quantity | None,
        ephemeral_storage: Quantity | None,
        gpu: Quantity | None,
        resources: Mapping[str, Quantity] | None,
        platform: str | None,
        label: Mapping[str, str] | None,
    ) -> None:
        zero = self.zero_counts
        values: dict[str, Any] = {
            "cpu_millicores": None if cpu is None else parse_cpu(cpu, zero=zero),
            "memory_bytes": None if memory is None else parse_bytes(memory, name="memory", zero=zero),
            "ephemeral_storage_bytes": None
            if ephemeral_storage is None
            else parse_bytes(ephemeral_storage, name="ephemeral_storage", zero=zero),
            "gpu": None if gpu is None else parse_count(gpu, name="gpu", zero=zero),
            "resources": _members(
                resources, "resources", lambda name, value: _resource(name, value, zero=zero)
            ),
            "platform": None if platform is None else parse_platform(platform),
            "label": _members(label, "label", _label),
        }
        for name, value in values.items():
            object.__setattr__(self, name, value)

    @property
    def is_empty(self) -> bool:
        """Whether no property is specified at all."""
        values = (getattr(self, name) for name in _slots(type(self)))
        return all(value is None or (isinstance(value, Mapping) and not value) for value in values)

    def overlaid_by(self, later: Self) -> Self:
        """These facts with those of `later` in front, property by property; resources and labels by name."""
        merged = object.__new__(type(self))
        for name in _slots(type(self)):
            mine, others = getattr(self, name), getattr(later, name)
            value = mine if others is None else others
            if isinstance(mine, Mapping):
                value = MappingProxyType(dict(sorted({**mine, **others}.items())))
            object.__setattr__(merged, name, value)
        return merged

    def texts(self) -> dict[str, str]:
        """Every specified property, as the one-line form names it, with its canonical text."""
        texts = {
            "cpu": None if self.cpu_millicores is None else format_cpu(self.cpu_millicores),
            "memory": None if self.memory_bytes is None else format_bytes(self.memory_bytes),
            "ephemeral_storage": None
            if self.ephemeral_storage_bytes is None
            else format_bytes(self.ephemeral_storage_bytes),
            "gpu": None if self.gpu is None else format_count(self.gpu),
            **{RESOURCE + name: format_count(count) for name, count in self.resources.items()},
            "platform": self.platform,
            **self._image_texts(),
            **{LABEL + name: value for name, value in self.label.items()},
        }
        return {name: text for name, text in texts.items() if text is not None}

    def _image_texts(self) -> dict[str, str | None]:
        raise NotImplementedError

    def to_data(self) -> dict[str, Any]:
        """The stored form: plain data, the constructor's keywords with canonical texts."""
        return nest(self.texts())

    @classmethod
    def from_data(cls, data: object) -> Self:
        """Read the stored form back.

        An amount may be spelled in any way that means exactly the same. Apart from that, only what `to_data`
        writes is read: whatever is there must say something, so that nothing damaged reads as fewer facts.

        Raises:
            NewerSchema: a property that this version does not know.
            Malformed: anything else (G17).
        """
        if not isinstance(data, Mapping):
            raise Malformed(f"stored {cls.word} are {type(data).__name__} where a mapping was expected")
        if unknown := [name for name in data if name not in cls.properties]:
            raise NewerSchema(
                f"stored {cls.word} have the unknown property {shown(unknown[0])}; "
                "they may be of a newer version"
            )
        if absent := [name for name, value in data.items() if _says_nothing(value)]:
            raise Malformed(f"stored {cls.word} have no value for {absent[0]!r}")
        try:
            return cls(**data)
        except InvalidInput as error:
            raise Malformed(f"stored {cls.word} cannot be read: {error}") from error

    @classmethod
    def parse(cls, text: str, *, source: str = "") -> Self:
        """Read the one-line form. Raises `InvalidInput` naming the part that is wrong, and `source` first."""
        with told_by(source):
            return cls.from_texts(read_pairs(text, cls.example))

    @classmethod
    def from_texts(cls, texts: Mapping[str, str]) -> Self:
        """Read properties named as in the one-line form. Raises `InvalidInput` naming what is wrong."""
        check_names(texts, cls.names, cls.example)
        return cls(**nest(texts))

    def __str__(self) -> str:
        return ",".join(f"{name}={text}" for name, text in self.texts().items())

    def __repr__(self) -> str:
        keywords = (f"{name}={value!r}" for name, value in self.to_data().items())
        return f"{type(self).__name__}({', '.join(keywords)})"

    def __reduce__(self) -> tuple[Callable[[object], Self], tuple[dict[str, Any]]]:
        # The mappings inside are read-only views, which neither pickle nor copy.
        return type(self).from_data, (self.to_data(),)


@contextmanager
def told_by(source: str) -> Iterator[None]:
    """Begin the message of an `InvalidInput` with the option or variable that was given."""
    try:
        yield
    except InvalidInput as error:
        if not source:
            raise
        raise type(error)(f"{source}: {error}") from error


def _slots(kind: type[Facts]) -> list[str]:
    return [name for base in kind.__mro__ for name in getattr(base, "__slots__", ())]


def _says_nothing(value: object) -> bool:
    if isinstance(value, Mapping):
        return not value or any(inner is None for inner in value.values())
    return value is None


def _members(given: object, what: str, read: Callable[[str, Any], object]) -> Mapping[str, Any]:
    if given is None:
        return MappingProxyType({})
    if not isinstance(given, Mapping):
        raise InvalidInput(f"{what}: {shown(given)} is no mapping of names to values")
    for name in given:
        if not isinstance(name, str) or not NAME.fullmatch(name):
            raise InvalidInput(
                f"{what}: {shown(name)} is no name; use letters, digits, '.', '_', '-' and '/', "
                "for example 'example.com/fpga'"
            )
    return MappingProxyType({name: read(name, given[name]) for name in sorted(given)})


def _resource(name: str, value: Quantity, *, zero: bool) -> Fraction:
    if name in OWN_NAMES:
        own = name.replace("-", "_")
        raise InvalidInput(f"resources: {name!r} is a property of its own; write {own}=... instead")
    return parse_count(value, name=RESOURCE + name, zero=zero)


def _label(name: str, value: object) -> str:
    if isinstance(value, str) and _LABEL_VALUE.fullmatch(value):
        return value
    raise InvalidInput(
        f"{LABEL}{name}: {shown(value)} is no label value; use at most 63 letters, digits, '.', '_' and '-', "
        "for example 'eu-west'"
    )
