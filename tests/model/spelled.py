"""Needs and allocations in many spellings, each drawn together with what it means.

Amounts lie close to each other and to the limits, so that a comparison that rounds is found out.
"""

from __future__ import annotations

from decimal import Decimal
from fractions import Fraction
from functools import cache
from typing import Any, NamedTuple

from hypothesis import strategies as st

from tenure.model.allocation import Allocation
from tenure.model.needs import Needs
from tests.model import restated
from tests.model.environments import DIGESTS
from tests.model.restated import LARGEST, Meaning

EXPONENTS = ["0", "3", "+03", "-2", "-9", "9"]
REFERENCES = ["a:1", "b:1", "host.example:5000/a/b_c:1.0-x", "a"]
GPUS = [
    Fraction(one) for one in ("1/3", "333/1000", "334/1000", "1/2", "0.1", "1", "3", "1e-9", str(LARGEST))
]


class Spelled(NamedTuple):
    """Keywords as somebody may give them, and what they mean."""

    given: dict[str, Any]
    meaning: Meaning


def decimal_text(number: Fraction) -> str | None:
    """The digits of a number, if it has finitely many and they stay within what is read."""
    for places in range(40):
        scaled = number * 10**places
        if scaled.denominator == 1:
            digits = str(scaled.numerator).rjust(places + 1, "0")
            return f"{digits[:-places]}.{digits[-places:]}" if places else digits
    return None


@cache
def spellings(number: Fraction) -> list[Any]:
    """Every way to give a number exactly: with each suffix, with exponents, and as Python's numbers."""
    found: list[Any] = [number]
    factors = restated.FACTORS | {
        f"{e}{power}": Fraction(10) ** int(power) for e in "eE" for power in EXPONENTS
    }
    for suffix, factor in factors.items():
        digits = decimal_text(number / factor)
        found += [] if digits is None else [f"{digits}{suffix}", f"+0{digits}{suffix}"]
    if (digits := decimal_text(number)) is not None:
        found += [Decimal(digits)] if Fraction(Decimal(digits)) == number else []
        found += [float(digits)] if Fraction(repr(float(digits))) == number else []
    if number.denominator == 1:
        found.append(int(number))
    return [one for one in found if not isinstance(one, str) or len(one) <= 64]


@st.composite
def amounts(draw: st.DrawFn, pool: list[Fraction], unit: int, *, zero: bool) -> tuple[Any, Fraction]:
    meaning = draw(st.sampled_from([Fraction(0), *pool] if zero else pool))
    return draw(st.sampled_from(spellings(meaning / unit))), meaning


@st.composite
def spelled(draw: st.DrawFn, *, zero: bool) -> Spelled:
    given: dict[str, Any] = {}
    meaning: dict[str, Any] = {}
    bytes_ = [Fraction(one) for one in (1, 10**9, 2**30 - 1, 2**30, 2**30 + 1, 5 * 2**40, LARGEST)]
    millicores = [Fraction(one) for one in (1, 333, 334, 500, 1000, 2500, LARGEST)]
    pools = {"cpu": millicores, "memory": bytes_, "ephemeral_storage": bytes_, "gpu": GPUS}
    for name in draw(st.sets(st.sampled_from(list(pools)))):
        given[name], amount = draw(amounts(pools[name], 1000 if name == "cpu" else 1, zero=zero))
        meaning[name] = amount if name == "gpu" else int(amount)
    for name in draw(st.sets(st.sampled_from(["fpga", "example.com/fpga", "nvidia.com/mig-1g.5gb"]))):
        given.setdefault("resources", {})[name], meaning[f"resource.{name}"] = draw(
            amounts(GPUS, 1, zero=zero)
        )
    for name in draw(st.sets(st.sampled_from(["zone", "example.com/disk"]))):
        meaning[f"label.{name}"] = draw(st.sampled_from(["eu", "us", "EU"]))
        given.setdefault("label", {})[name] = meaning[f"label.{name}"]
    if draw(st.booleans()):
        system = draw(st.sampled_from(list(restated.SYSTEMS)))
        machine = draw(st.sampled_from(list(restated.ARCHITECTURES)))
        meaning["platform"] = (system, *machine)
        parts = (restated.SYSTEMS[system], restated.ARCHITECTURES[machine])
        text = "/".join(draw(st.sampled_from(spellings)) for spellings in parts)
        given["platform"] = draw(st.sampled_from([text, text.upper(), text.title()]))
    return Spelled(given, meaning)


@st.composite
def spelled_needs(draw: st.DrawFn) -> Spelled:
    given, meaning = draw(spelled(zero=False))
    pins = [f"{name}@{digest}" for name in REFERENCES for digest in DIGESTS]
    if (image := draw(st.none() | st.sampled_from(REFERENCES) | st.sampled_from(pins))) is not None:
        given["image"] = image
        meaning = {**meaning, "image": image}
    return Spelled(given, meaning)


@st.composite
def spelled_allocations(draw: st.DrawFn) -> Spelled:
    given, meaning = draw(spelled(zero=True))
    parts = {
        # A reference that has the digest in it proves no more than one without.
        "reference": st.sampled_from([*REFERENCES, f"a@{DIGESTS[0]}"]),
        "manifest_digest": st.sampled_from(DIGESTS),
        "image_id": st.sampled_from(DIGESTS),
    }
    if image := draw(st.fixed_dictionaries({}, optional=parts)):
        given["image"] = image["reference"] if list(image) == ["reference"] else image
        meaning = {**meaning, **{f"image.{part}": value for part, value in image.items()}}
    return Spelled(given, meaning)


def meaning_of(facts: Needs | Allocation) -> Meaning:
    """What needs or an allocation hold, told flatly."""
    held = {
        "cpu": facts.cpu_millicores,
        "memory": facts.memory_bytes,
        "ephemeral_storage": facts.ephemeral_storage_bytes,
        "gpu": facts.gpu,
        "platform": (*facts.platform.split("/"), None)[:3] if facts.platform else None,
        **{f"resource.{name}": amount for name, amount in facts.resources.items()},
        **{f"label.{name}": value for name, value in facts.label.items()},
    }
    if isinstance(facts, Needs):
        held["image"] = facts.image
    else:
        for part in ("reference", "manifest_digest", "image_id"):
            held[f"image.{part}"] = getattr(facts.image, part, None)
    return {name: value for name, value in held.items() if value is not None}
