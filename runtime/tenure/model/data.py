"""Plain data, and the bytes it is stored as.

Parameters and results cross a boundary: what a function gets on replay must be what it got the first time.
So values are brought to plain data before they are used, and not only before they are stored. What would not
come back as it went is refused, unless an annotation or a pydantic model says what to turn it back into.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from types import NoneType, UnionType
from typing import Any, Final, NoReturn, Union, get_args, get_origin

import msgpack
from pydantic import PydanticUndefinedAnnotation, PydanticUserError, TypeAdapter, ValidationError
from pydantic_core import PydanticSerializationError

from tenure.errors import InvalidInput, Malformed, NotPlainData, PayloadTooLarge
from tenure.model.plain import ADVICE, Plain, canonical, pack, path_part, walk

SCHEMA_VERSION: Final = 1

_HEAD: Final = bytes([SCHEMA_VERSION])
_PLAIN_TYPES: Final = frozenset(
    {Any, object, None, NoneType, bool, int, float, str, bytes, Union, UnionType}
    | {list, tuple, dict, Sequence, Mapping}
)


def to_plain(value: object, *, where: str, annotation: Any = Any) -> Plain:
    """Bring `value` to plain data that shares no list or dict with it.

    Without an annotation the value must be plain already, or a pydantic model (which comes back as a dict).
    With one, it is validated against it first, and whatever pydantic can bring back is accepted.

    Raises:
        InvalidInput: the value does not fit its annotation.
        NotPlainData: some part of it would not come back as it went; the message has its path.
    """
    shape = _shape_of(annotation)
    if shape is None:
        return walk(value, where=where, trusted=False)
    try:
        checked = shape.adapter.validate_python(value)
        dumped = shape.adapter.dump_python(
            checked, mode="python", by_alias=False, round_trip=True, warnings="error"
        )
    except ValidationError as error:
        raise InvalidInput(f"{where}: {_first_complaint(error)}") from error
    except PydanticSerializationError as error:
        raise NotPlainData(f"{where}: {error}") from error
    return walk(dumped, where=where, trusted=shape.trusted)


def from_plain(plain: Plain, *, where: str, annotation: Any = Any) -> Any:
    """Turn plain data back into what its annotation says. Raises `InvalidInput` if it does not fit."""
    shape = _shape_of(annotation)
    if shape is None:
        return plain
    try:
        # By field names, because that is how they were dumped; not strictly, because dumping turned tuples
        # into lists and UUIDs into texts.
        return shape.adapter.validate_python(plain, strict=False, by_name=True)
    except ValidationError as error:
        raise InvalidInput(f"{where}: {_first_complaint(error)}") from error


def encode(plain: Plain, *, limit: int, where: str) -> bytes:
    """Plain data as bytes: a schema version and msgpack.

    Raises:
        PayloadTooLarge: there are more than `limit` bytes.
        NotPlainData: it was not plain, or has text that is not Unicode.
    """
    try:
        raw = _HEAD + pack(plain)
    except (TypeError, ValueError, OverflowError) as error:
        raise NotPlainData(f"{where}: {error}; {ADVICE}") from error
    if len(raw) > limit:
        raise PayloadTooLarge(
            f"{where}: {len(raw)} bytes are over the limit of {limit}; "
            "store the data elsewhere and pass a reference to it (a path, a key, a URL)"
        )
    return raw


def decode(raw: bytes, *, where: str) -> Plain:
    """Read what `encode` wrote. Raises `Malformed`, naming `where`, for anything else (G17)."""
    if raw[:1] != _HEAD:
        what = f"schema version {raw[0]}, and this is version {SCHEMA_VERSION}" if raw else "no bytes at all"
        raise Malformed(f"{where}: the stored data has {what}; nothing was changed")
    try:
        return msgpack.unpackb(memoryview(raw)[1:], timestamp=3, ext_hook=_refuse_extension)
    except (ValueError, TypeError, OverflowError, msgpack.UnpackException) as error:
        reason = str(error) or type(error).__name__
        raise Malformed(f"{where}: the stored data cannot be read ({reason}); nothing was changed") from error


def input_hash(plain: Plain) -> str:
    """32 hexadecimal digits that are equal for equal plain data, whatever the order of its keys."""
    return hashlib.sha256(canonical(plain)).hexdigest()[:32]


def deep_copy(plain: Plain) -> Plain:
    """A copy of plain data that shares no list or dict with it."""
    if isinstance(plain, dict):
        return {key: deep_copy(value) for key, value in plain.items()}
    if isinstance(plain, list):
        return [deep_copy(value) for value in plain]
    return plain


def _refuse_extension(code: int, _data: bytes) -> NoReturn:
    raise ValueError(f"extension type {code}")


@dataclass(frozen=True, slots=True)
class _Shape:
    """What an annotation asks for. It is trusted to bring leaves back if it names more than plain types."""

    adapter: TypeAdapter[Any]
    trusted: bool


def _shape_of(annotation: Any) -> _Shape | None:
    """The shape of an annotation, made once; None where any plain data will do, or there is no schema."""
    if annotation is Any or annotation is object:
        return None
    try:
        return _cached_shape(annotation)
    except TypeError:
        # An unhashable annotation, such as one with a list in `Annotated`.
        return _shape(annotation)


@lru_cache(maxsize=4096)
def _cached_shape(annotation: Any) -> _Shape | None:
    return _shape(annotation)


def _shape(annotation: Any) -> _Shape | None:
    try:
        return _Shape(TypeAdapter(annotation), trusted=not _names_only_plain_types(annotation))
    except (PydanticUserError, PydanticUndefinedAnnotation):
        # No schema for this type. Its values have to be plain then, and are told so one by one.
        return None


def _names_only_plain_types(annotation: Any) -> bool:
    """Whether nothing here could turn a leaf back: `dict[str, Any]` would bring a set back as a list."""
    kind, arguments = get_origin(annotation) or annotation, get_args(annotation)
    if kind not in _PLAIN_TYPES:
        return False
    if kind in (dict, Mapping) and arguments and arguments[0] not in (str, Any):
        return False
    return all(argument is Ellipsis or _names_only_plain_types(argument) for argument in arguments)


def _first_complaint(error: ValidationError) -> str:
    first, *others = error.errors(include_url=False, include_context=False)
    path = "".join(map(path_part, first["loc"]))
    more = f" (and {len(others)} more)" if others else ""
    return f"{path.removeprefix('.')}{': ' if path else ''}{first['msg']}, not {first['input']!r:.80}{more}"
