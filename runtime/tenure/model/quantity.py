"""Resource quantities in Kubernetes' grammar, read exactly.

Nothing is ever rounded: what cannot be kept exactly is an error, so what is compared is what was written. A
float stands for the text Python shows for it, which is what its author typed (0.1 is a tenth).
Source of the grammar: Kubernetes `resource.Quantity`, though that rounds below a billionth and caps at 63
bits; of the refusals: the design's section 5. A count may also be a ratio, for what no decimal says exactly.
"""

from __future__ import annotations

import re
from decimal import Decimal
from fractions import Fraction
from functools import lru_cache
from types import MappingProxyType
from typing import TYPE_CHECKING, Final, TypeAlias

from tenure.errors import InvalidQuantity
from tenure.model.shown import shown

if TYPE_CHECKING:
    from collections.abc import Mapping

Quantity: TypeAlias = int | str | float | Decimal | Fraction

LARGEST: Final = 2**63 - 1
CORES: Final = "give cores such as 2, '1.5' or '500m'"
BYTES: Final = "give whole bytes such as 128974848, '512Mi' or '4Gi'"
COUNT: Final = "give a count such as 1, '1/2' or '500m'"

_BINARY: Final = ("Ki", "Mi", "Gi", "Ti", "Pi", "Ei")
_DECIMAL: Final = ("n", "u", "m", "", "k", "M", "G", "T", "P", "E")
_SUFFIXES: Final[Mapping[str, Fraction]] = MappingProxyType(
    {
        **{suffix: Fraction(1000) ** power for power, suffix in enumerate(_DECIMAL, -3)},
        **{suffix: Fraction(1024) ** power for power, suffix in enumerate(_BINARY, 1)},
    }
)
_TEXT: Final = re.compile(
    r"(?P<number>[+-]?(?:[0-9]+\.?[0-9]*|\.[0-9]+))(?:[eE](?P<exponent>[+-]?[0-9]+)|(?P<suffix>[A-Za-z]{0,2}))"
)
_RATIO: Final = re.compile(r"([0-9]+)/([0-9]+)")
_LONGEST_TEXT: Final = 64
# 1e9999 must not build a number of ten thousand digits. Whatever digits the longest text has room for, with
# an exponent of this size they are far beyond 63 bits: what is cut down to it is refused all the same.
_LARGEST_EXPONENT: Final = 100


def parse_cpu(value: Quantity, *, name: str = "cpu", zero: bool = False) -> int:
    """Read cores as millicores. Raises `InvalidQuantity`; `zero` allows none at all."""
    return _whole(_read(value, name, CORES) * 1000, value, name, CORES, zero=zero)


def parse_bytes(value: Quantity, *, name: str, zero: bool = False) -> int:
    """Read an amount of bytes. Raises `InvalidQuantity`; `zero` allows none at all."""
    return _whole(_read(value, name, BYTES), value, name, BYTES, zero=zero)


def parse_count(value: Quantity, *, name: str, zero: bool = False) -> Fraction:
    """Read a count, whole or fractional. Raises `InvalidQuantity`; `zero` allows none at all."""
    return _bounded(_read(value, name, COUNT, ratio=True), value, name, COUNT, zero=zero)


def format_cpu(millicores: int) -> str:
    """The shortest text for an amount of CPU: "2" or "500m"."""
    cores, rest = divmod(millicores, 1000)
    return f"{millicores}m" if rest else str(cores)


def format_bytes(amount: int) -> str:
    """The shortest exact text with an IEC suffix ("4Gi"), or the plain bytes where none divides them."""
    suffix = ""
    for larger in _BINARY:
        if amount == 0 or amount % 1024:
            break
        amount, suffix = amount // 1024, larger
    return f"{amount}{suffix}"


def format_count(count: Fraction) -> str:
    """A count as "3", or as "1/2" where it is not whole."""
    return str(count)


def _read(value: Quantity, name: str, accepted: str, *, ratio: bool = False) -> Fraction:
    if isinstance(value, bool) or not isinstance(value, int | str | float | Decimal | Fraction):
        raise _refusal(value, name, "is no quantity", accepted)
    if isinstance(value, int | Fraction):
        return Fraction(value)
    text = str(value)
    if len(text) > _LONGEST_TEXT:
        raise _refusal(value, name, "is too long", accepted)
    number = _read_text(text)
    if number is None and ratio:
        number = _read_ratio(text)
    if number is None:
        raise _refusal(value, name, "is no quantity", accepted)
    return number


@lru_cache(maxsize=1024)
def _read_text(text: str) -> Fraction | None:
    match = _TEXT.fullmatch(text)
    if match is None or (match["suffix"] or "") not in _SUFFIXES:
        return None
    exponent = int(match["exponent"] or 0)
    exponent = max(-_LARGEST_EXPONENT, min(exponent, _LARGEST_EXPONENT))
    return Fraction(match["number"]) * Fraction(10) ** exponent * _SUFFIXES[match["suffix"] or ""]


def _read_ratio(text: str) -> Fraction | None:
    match = _RATIO.fullmatch(text)
    return Fraction(int(match[1]), int(match[2])) if match and int(match[2]) else None


def _whole(number: Fraction, value: Quantity, name: str, accepted: str, *, zero: bool) -> int:
    number = _bounded(number, value, name, accepted, zero=zero)
    if number.denominator != 1:
        raise _refusal(value, name, "would have to be rounded", accepted)
    return int(number)


def _bounded(number: Fraction, value: Quantity, name: str, accepted: str, *, zero: bool) -> Fraction:
    if number < 0:
        raise _refusal(value, name, "is negative", accepted)
    if number == 0 and not zero:
        raise _refusal(value, name, "is zero; leave out what is not needed, or", accepted)
    if number > LARGEST:
        raise _refusal(value, name, "is too large", accepted)
    if max(number.numerator, number.denominator) > LARGEST:
        raise _refusal(value, name, "would have to be rounded", accepted)
    return number


def _refusal(value: object, name: str, why: str, accepted: str) -> InvalidQuantity:
    joint = " " if why.endswith("or") else "; "
    return InvalidQuantity(f"{name}: {shown(value)} {why}{joint}{accepted}")
