"""The walk that brings a value to plain data, or says which part of it cannot be."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Mapping
from datetime import UTC, datetime
from types import NoneType
from typing import Any, Final, TypeAlias

import msgpack
from pydantic import BaseModel, SecretBytes, SecretStr
from pydantic_core import PydanticSerializationError, to_jsonable_python

from tenure.errors import NotPlainData

#: None, bool, int (64 bits, signed), float, str, bytes, aware datetime, lists and str-keyed dicts of these.
Plain: TypeAlias = Any

ADVICE: Final = (
    "plain data is None, bool, int, float, str, bytes, aware datetime, list and dict; "
    "annotate the parameter or result with its type, or use a pydantic model"
)

_DEEPEST: Final = 100
_LARGEST_INT: Final = 2**63 - 1
_AS_IT_IS: Final = frozenset({NoneType, bool, float, str, bytes})
#: Keys whose text tells too little to get them back.
_KEYS_WITHOUT_A_TEXT: Final = (bytes, tuple, frozenset)


def walk(value: object, *, where: str, trusted: bool) -> Plain:
    """Bring `value` to plain data that shares no list or dict with it.

    `trusted` says that an annotation will turn it back into what it was, so that its leaves may be of any
    type that pydantic can express in plain data. What lies inside a pydantic model is always trusted.

    Raises:
        NotPlainData: with the path of the part that cannot be, `book.pages[3]`.
    """
    try:
        return _walk(value, trusted=trusted, depth=0)
    except _RefusedError as refused:
        raise NotPlainData(f"{where}{''.join(reversed(refused.path))}: {refused.why}") from refused


def pack(plain: Plain) -> bytes:
    """Plain data in msgpack, as it is."""
    packed: bytes = msgpack.packb(plain, datetime=True)
    return packed


def canonical(plain: Plain) -> bytes:
    """Plain data in msgpack with its keys in order: equal for equal data."""
    return pack(_in_order(plain))


def path_part(key: object) -> str:
    """How a key shows in a path: `.pages`, `[3]` or `['a b']`."""
    return f".{key}" if isinstance(key, str) and key.isidentifier() else f"[{key!r}]"


def _in_order(plain: Plain) -> Plain:
    if isinstance(plain, dict):
        return {key: _in_order(plain[key]) for key in sorted(plain)}
    if isinstance(plain, list):
        return [_in_order(value) for value in plain]
    return plain


class _RefusedError(Exception):
    """Carries what is wrong out of the walk; each container it passes adds its part of the path."""

    def __init__(self, why: str) -> None:
        super().__init__(why)
        self.why = why
        self.path: list[str] = []


def _walk(value: Any, *, trusted: bool, depth: int) -> Plain:
    kind = type(value)
    if kind in _AS_IT_IS:
        return value
    if kind is int:
        if -_LARGEST_INT - 1 <= value <= _LARGEST_INT:
            return value
        raise _RefusedError("an int of more than 64 bits; pass it as a str")
    if depth >= _DEEPEST:
        raise _RefusedError(f"nested deeper than {_DEEPEST} levels, or containing itself")
    if isinstance(value, dict):
        return _walk_dict(value, trusted=trusted, depth=depth + 1)
    if kind is list or kind is tuple:
        return _walk_items(value, trusted=trusted, depth=depth + 1)
    return _walk_other(value, trusted=trusted, depth=depth)


def _walk_other(value: Any, *, trusted: bool, depth: int) -> Plain:
    if isinstance(value, BaseModel):
        return _walk_model(value, depth)
    if isinstance(value, datetime) and (value.utcoffset() is not None or not trusted):
        return _walk_datetime(value)
    if not trusted:
        raise _RefusedError(f"{type(value).__name__} is not plain data; {ADVICE}")
    if isinstance(value, set | frozenset):
        # In an order of its own: that of a set changes from process to process, and with it the input hash.
        return sorted(_walk_items(value, trusted=trusted, depth=depth + 1), key=canonical)
    if isinstance(value, list | tuple | deque):
        return _walk_items(value, trusted=trusted, depth=depth + 1)
    if isinstance(value, Mapping):
        return _walk_dict(value, trusted=trusted, depth=depth + 1)
    return _walk_leaf(value, depth)


def _walk_model(value: BaseModel, depth: int) -> Plain:
    try:
        dumped = value.model_dump(mode="python", by_alias=False, round_trip=True, warnings="error")
    except PydanticSerializationError as error:
        raise _RefusedError(str(error)) from error
    return _walk(dumped, trusted=True, depth=depth)


def _walk_datetime(value: datetime) -> datetime:
    if value.utcoffset() is None:
        raise _RefusedError(
            "a datetime without time zone is a different instant elsewhere; use datetime.now(UTC)"
        )
    try:
        return value.astimezone(UTC)
    except OverflowError as error:
        raise _RefusedError("a datetime that UTC cannot express") from error


def _walk_leaf(value: object, depth: int) -> Plain:
    if isinstance(value, SecretStr | SecretBytes):
        raise _RefusedError("a secret would be stored masked; pass a reference to it")
    try:
        return _walk(to_jsonable_python(value), trusted=False, depth=depth + 1)
    except (PydanticSerializationError, UnicodeDecodeError) as error:
        raise _RefusedError(f"{type(value).__name__} is not plain data; {ADVICE}") from error


def _walk_items(values: Iterable[object], *, trusted: bool, depth: int) -> list[Plain]:
    plain: list[Plain] = []
    try:
        for value in values:
            if type(value) in _AS_IT_IS:
                plain.append(value)
            else:
                plain.append(_walk(value, trusted=trusted, depth=depth))
    except _RefusedError as refused:
        refused.path.append(f"[{len(plain)}]")
        raise
    return plain


def _walk_dict(values: Mapping[Any, object], *, trusted: bool, depth: int) -> dict[str, Plain]:
    plain: dict[str, Plain] = {}
    key: Any = None
    try:
        for key, value in values.items():
            text = key if type(key) is str else _key(key, trusted=trusted)
            plain[text] = _walk(value, trusted=trusted, depth=depth)
    except _RefusedError as refused:
        refused.path.append(path_part(key))
        raise
    if len(plain) != len(values):
        raise _RefusedError("two keys have the same text")
    return plain


def _key(key: object, *, trusted: bool) -> str:
    if not trusted or isinstance(key, _KEYS_WITHOUT_A_TEXT):
        raise _RefusedError(f"a key is {type(key).__name__}; keys have to be str")
    try:
        (text,) = to_jsonable_python({key: None})
    except (PydanticSerializationError, UnicodeDecodeError) as error:
        raise _RefusedError(f"a key is {type(key).__name__}, which has no text to come back from") from error
    return str(text)
