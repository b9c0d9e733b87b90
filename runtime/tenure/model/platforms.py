"""Platforms in one spelling each: os/arch, with a variant where one was given.

A machine calls itself `x86_64` or `aarch64` where images say `amd64` and `arm64`; both spellings become the
one that images use, so that they meet. Case does not tell platforms apart: all of it becomes lower case.

Source of the names: containerd's platforms package, `normalizeOS` and `normalizeArch`. That also fills in and
drops variants (`arm` is `arm/v7` there, and `arm64/v8` is `arm64`). Not so here, where an omitted variant
accepts any and one that was given accepts only itself.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final

from tenure.errors import InvalidInput
from tenure.model.shown import shown

_PLATFORM: Final = re.compile(r"[A-Za-z0-9_.-]{1,63}(?:/[A-Za-z0-9_.-]{1,63}){1,2}")
_SYSTEMS: Final[Mapping[str, str]] = {"macos": "darwin"}
_ARCHITECTURES: Final[Mapping[str, str]] = {
    "x86_64": "amd64",
    "x86-64": "amd64",
    "aarch64": "arm64",
    "i386": "386",
    "armhf": "arm/v7",
    "armel": "arm/v6",
}
#: Variants of the ARM architectures may be given by their numbers alone.
_NUMBERED: Final[Mapping[str, str]] = {
    **{f"arm/{number}": f"arm/v{number}" for number in "5678"},
    "arm64/8": "arm64/v8",
}


def parse_platform(value: object) -> str:
    """Read `os/arch` or `os/arch/variant` as its canonical spelling, which reads as itself.

    Raises:
        InvalidInput: no platform, or an architecture whose name says another variant than the one beside it.
    """
    if not (isinstance(value, str) and _PLATFORM.fullmatch(value)):
        raise InvalidInput(
            f"platform: {shown(value)} is no platform; write os/arch or os/arch/variant, as in 'linux/amd64'"
        )
    system, named, *variant = value.lower().split("/")
    architecture = _ARCHITECTURES.get(named, named)
    beside = "/".join([architecture.partition("/")[0], *variant])
    beside = _NUMBERED.get(beside, beside)
    if variant and "/" in architecture and beside != architecture:
        raise InvalidInput(
            f"platform: {shown(value)} contradicts itself, since {named} is {architecture}; "
            f"write '{system}/{architecture}' or '{system}/{beside}'"
        )
    return f"{_SYSTEMS.get(system, system)}/{beside if variant else architecture}"
