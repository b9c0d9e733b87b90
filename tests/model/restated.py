"""The rules of section 5 once more, as plainly as they can be said: the code is held against this.

What is needed or told is a flat mapping here, from a property's name in the one-line form to what it means:
an integer of millicores or bytes, a `Fraction`, the parts of a platform, a text. Nothing is imported from the
code that follows these rules.
"""

from __future__ import annotations

from collections.abc import Mapping
from fractions import Fraction
from typing import Any, TypeAlias

Meaning: TypeAlias = Mapping[str, Any]

LARGEST = 9_223_372_036_854_775_807
BINARY = {"Ki": 2**10, "Mi": 2**20, "Gi": 2**30, "Ti": 2**40, "Pi": 2**50, "Ei": 2**60}
DECIMAL = {"n": -9, "u": -6, "m": -3, "": 0, "k": 3, "M": 6, "G": 9, "T": 12, "P": 15, "E": 18}
FACTORS = {name: Fraction(factor) for name, factor in BINARY.items()} | {
    name: Fraction(10) ** power for name, power in DECIMAL.items()
}
DIGITS = "0123456789"
AMOUNTS = ("cpu", "memory", "ephemeral_storage", "gpu")
#: How else people write the parts of a platform; the first is the one that images use.
SYSTEMS = {"linux": ["linux"], "windows": ["windows"], "darwin": ["darwin", "macos"]}
ARCHITECTURES = {
    ("amd64", None): ["amd64", "x86_64", "x86-64"],
    ("amd64", "v2"): ["amd64/v2", "x86_64/v2", "x86-64/v2"],
    ("386", None): ["386", "i386"],
    ("arm64", None): ["arm64", "aarch64"],
    ("arm64", "v8"): ["arm64/v8", "aarch64/v8", "arm64/8", "aarch64/8"],
    ("arm", None): ["arm"],
    ("arm", "v5"): ["arm/v5", "arm/5"],
    ("arm", "v6"): ["arm/v6", "arm/6", "armel", "armel/v6", "armel/6"],
    ("arm", "v7"): ["arm/v7", "arm/7", "armhf", "armhf/v7", "armhf/7"],
}


def quantity(text: str) -> Fraction | None:
    """What Kubernetes' grammar makes of a text: sign, digits with at most one dot, suffix or exponent."""
    sign = -1 if text[:1] == "-" else 1
    unsigned = text[1:] if text[:1] in {"+", "-"} else text
    suffix = unsigned.lstrip(DIGITS + ".")
    whole, _, part = unsigned.removesuffix(suffix).partition(".")
    if "." in part or not whole + part:
        return None
    number = sign * Fraction(int(whole + part), 10 ** len(part))
    if suffix in FACTORS:
        return number * FACTORS[suffix]
    power = suffix[2:] if suffix[1:2] in {"+", "-"} else suffix[1:]
    if suffix[0] not in {"e", "E"} or not power or power.strip(DIGITS):
        return None
    return number * Fraction(10) ** (int(power) * (-1 if suffix[1] == "-" else 1))


def ratio(text: str) -> Fraction | None:
    """What a count may be besides: the text of a fraction."""
    over, slash, under = text.partition("/")
    if not (slash and over and under) or (over + under).strip(DIGITS) or not int(under):
        return None
    return Fraction(int(over), int(under))


def whole(number: Fraction | None, *, zero: bool) -> int | None:
    """What may be kept as a whole amount; None for everything that has to be refused."""
    fits = number is not None and number.denominator == 1 and (0 if zero else 1) <= number <= LARGEST
    return int(number) if fits and number is not None else None


def count(number: Fraction | None, *, zero: bool) -> Fraction | None:
    """What may be kept as a count; None for everything that has to be refused."""
    if number is None or number < 0 or (number == 0 and not zero):
        return None
    return number if max(number.numerator, number.denominator) <= LARGEST else None


def text(name: str, meaning: Any) -> str:
    """The canonical text of a property."""
    match name.partition(".")[0]:
        case "cpu":
            return f"{meaning // 1000}" if meaning % 1000 == 0 else f"{meaning}m"
        case "memory" | "ephemeral_storage":
            fitting = [unit for unit in BINARY if meaning and meaning % BINARY[unit] == 0]
            return f"{meaning // BINARY[fitting[-1]]}{fitting[-1]}" if fitting else str(meaning)
        case "gpu" | "resource":
            over, under = meaning.as_integer_ratio()
            return f"{over}/{under}" if under > 1 else str(over)
        case "platform":
            return "/".join(part for part in meaning if part)
        case _:
            return str(meaning)


def line(needed: Meaning) -> str:
    """The canonical line: properties in one order, resources and labels by name."""
    return ",".join(f"{name}={text(name, needed[name])}" for name in in_order(needed))


def in_order(needed: Meaning) -> list[str]:
    groups = (*AMOUNTS, "resource", "platform", "image", "label")
    return sorted(needed, key=lambda name: (groups.index(name.partition(".")[0]), name))


def mismatches(needed: Meaning, told: Meaning) -> list[tuple[str, str, str | None]]:
    """Property, required and actual of everything explicit that no known fact meets."""
    found = []
    for name in in_order(needed):
        fact = _image_fact(needed[name]) if name == "image" else name
        if fact not in told or not _meets(name, needed[name], told[fact]):
            found.append((name, text(name, needed[name]), text(fact, told[fact]) if fact in told else None))
    return found


def surplus(needed: Meaning, told: Meaning) -> tuple[Any, ...]:
    """What is beyond the needs: gpu, memory, cpu, storage, other resources in sum, labels not asked for."""
    beyond = {
        name: max(Fraction(0), Fraction(told[name]) - needed.get(name, 0))
        for name in told
        if name in AMOUNTS or name.startswith("resource.")
    }
    others = sum(amount for name, amount in beyond.items() if name.startswith("resource."))
    labels = [name for name in told if name.startswith("label.") and name not in needed]
    ordered = (beyond.get(name, 0) for name in ("gpu", "memory", "cpu", "ephemeral_storage"))
    return (*ordered, others, len(labels))


def _image_fact(required: str) -> str:
    return "image.manifest_digest" if "@" in required else "image.reference"


def _meets(name: str, required: Any, actual: Any) -> bool:
    match name.partition(".")[0]:
        case "platform":
            return bool(required[:2] == actual[:2]) and required[2] in {None, actual[2]}
        case "image":
            return bool(required.partition("@")[2] == actual if "@" in required else required == actual)
        case "label":
            return bool(required == actual)
        case _:
            return bool(actual >= required)
