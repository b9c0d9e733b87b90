"""The one-line form of needs and allocations: `cpu=2,label.zone=eu,resource.example.com/fpga=1`.

Names here are flat. Whoever writes one otherwise, or knows it from Python, is told how it is written here.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from difflib import get_close_matches
from typing import Any, Final

from tenure.errors import InvalidInput, InvalidQuantity
from tenure.model.quantity import parse_count
from tenure.model.shown import shown

RESOURCE: Final = "resource."
LABEL: Final = "label."
#: A name of a resource or a label.
NAME: Final = re.compile(r"[A-Za-z0-9](?:[A-Za-z0-9._/-]{0,251}[A-Za-z0-9])?")

_GROUPS: Final[Mapping[str, str]] = {RESOURCE: "resources", LABEL: "label", "image.": "image"}
_PREFIXES: Final[Mapping[str, str]] = {
    "resource": RESOURCE,
    "resources": RESOURCE,
    "label": LABEL,
    "labels": LABEL,
}
_SAME: Final[Mapping[str, str]] = {"ephemeral-storage": "ephemeral_storage", "image.reference": "image"}


def read_pairs(text: str, example: str) -> dict[str, str]:
    """Read `a=1,b=2`. Raises `InvalidInput` for a part that is no pair or repeats a name."""
    pairs: dict[str, str] = {}
    for part in filter(None, (part.strip() for part in text.split(","))):
        name, _, value = (piece.strip() for piece in part.partition("="))
        if not (name and value):
            raise InvalidInput(f"{shown(part)} is not name=value; write it as in {example!r}")
        if name in pairs:
            raise InvalidInput(f"{shown(name)} is given twice in {shown(text)}")
        pairs[name] = value
    if text.strip() and not pairs:
        raise InvalidInput(f"{shown(text)} has nothing but commas; write it as in {example!r}")
    return pairs


def nest(texts: Mapping[str, str]) -> dict[str, Any]:
    """Turn names of the one-line form into keywords: `label.zone` into `label: {zone: ...}`."""
    data: dict[str, Any] = {}
    for name, text in texts.items():
        keyword, member = _keyword(name)
        place, key = (data, keyword) if member is None else (data.setdefault(keyword, {}), member)
        if key in place:
            raise InvalidInput(f"{name!r}: {keyword!r} is given twice, in two spellings; leave one out")
        place[key] = text
    # Needs know only the reference, which they take bare.
    if list(data.get("image", ())) == ["reference"]:
        data["image"] = data["image"]["reference"]
    return data


def check_names(texts: Mapping[str, str], names: Sequence[str], example: str) -> None:
    """Raise `InvalidInput` for a name that is none of `names`, with how to write what was meant."""
    for name, text in texts.items():
        if _general(name) not in names:
            hint = _hint(name, text, names)
            raise InvalidInput(
                f"{shown(name)} is no property; {hint}; there are {', '.join(names)}, as in {example!r}"
            )


def _general(name: str) -> str:
    """The name as it is listed: `label.zone` is one of `label.NAME`."""
    for prefix in (RESOURCE, LABEL):
        if name.startswith(prefix):
            return f"{prefix}NAME"
    return _SAME.get(name, name)


def _hint(name: str, text: str, names: Sequence[str]) -> str:
    group, _, member = name.partition(".")
    if prefix := _PREFIXES.get(group):
        # What stands behind `label` alone may be a value, or all of zone=eu.
        pair = f"{member}={text}" if member else text if "=" in text else f"NAME={text}"
        return f"write {shown(prefix + pair)}"
    if group == "image" and "image.manifest_digest" not in names:
        return "an image is pinned with 'image=NAME@sha256:...'"
    if close := get_close_matches(name, names, n=1):
        return f"perhaps {close[0]!r} was meant"
    if _is_count(text):
        return f"a counted resource is written {shown(f'{RESOURCE}{name}={text}')}"
    return f"a label is written {shown(f'{LABEL}{name}={text}')}"


def _is_count(text: str) -> bool:
    try:
        parse_count(text, name="", zero=True)
    except InvalidQuantity:
        return False
    return True


def _keyword(name: str) -> tuple[str, str | None]:
    """The constructor's keyword for a name of the one-line form, and the member of it, if it is one."""
    group, dot, member = name.partition(".")
    if keyword := _GROUPS.get(group + dot):
        return keyword, member
    if name == "image":
        return "image", "reference"
    return _SAME.get(name, name), None
