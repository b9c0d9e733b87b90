"""Whether a slot can do what is needed, and how closely it fits."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from fractions import Fraction
from typing import Final, TypeAlias, TypeVar

from tenure.model.allocation import Allocation, Image
from tenure.model.lines import LABEL, RESOURCE
from tenure.model.needs import Needs
from tenure.model.quantity import format_bytes, format_count, format_cpu

#: gpu, memory, cpu, ephemeral storage, all other resources together, labels nobody asked for.
Surplus: TypeAlias = tuple[Fraction, int, int, int, Fraction, int]

Amount = TypeVar("Amount", int, Fraction)

_IMAGE: Final = "image"


@dataclass(frozen=True, slots=True)
class Mismatch:
    """One property that keeps a slot from a task. `actual` is None where the slot does not know."""

    property: str
    required: str
    actual: str | None

    def __str__(self) -> str:
        return self.asked_by("")

    def asked_by(self, who: str) -> str:
        """The mismatch in words, with who asks for the property."""
        has = f"has {self.actual}"
        if self.actual is None:
            # A slot may well know its image's reference, which proves nothing of what is pinned.
            is_pinned = self.property == _IMAGE and "@" in self.required
            has = f"{'its manifest digest is ' if is_pinned else ''}unknown here"
        return f"{self.property}: needs {self.required}{f' ({who})' if who else ''}, {has}"

    def to_data(self) -> dict[str, str | None]:
        """Plain data, for JSON."""
        return {"property": self.property, "required": self.required, "actual": self.actual}


def compare(needs: Needs, allocation: Allocation) -> tuple[Mismatch, ...]:
    """Every property of `needs` that `allocation` does not satisfy; empty if the slot will do.

    Bigger is fine, an unknown fact satisfies nothing, and no surplus makes up for another property.
    """
    return tuple(_mismatches(needs, allocation))


def surplus(needs: Needs, allocation: Allocation) -> Surplus:
    """What the slot has beyond the needs, as a key to sort by: the smallest is the tightest fit.

    What is not needed counts whole, what is not known counts as nothing. Other resources are added up, since
    slots with different ones have to be put in one order; the labels nobody asked for decide last, so that a
    slot kept for something special is taken when nothing plainer is left.
    """
    return (
        _beyond(needs.gpu, allocation.gpu, Fraction(0)),
        _beyond(needs.memory_bytes, allocation.memory_bytes, 0),
        _beyond(needs.cpu_millicores, allocation.cpu_millicores, 0),
        _beyond(needs.ephemeral_storage_bytes, allocation.ephemeral_storage_bytes, 0),
        sum(
            (
                _beyond(needs.resources.get(name), count, Fraction(0))
                for name, count in allocation.resources.items()
            ),
            start=Fraction(0),
        ),
        len(allocation.label.keys() - needs.label.keys()),
    )


def _beyond(required: Amount | None, actual: Amount | None, nothing: Amount) -> Amount:
    if actual is None:
        return nothing
    return max(nothing, actual if required is None else actual - required)


def _mismatches(needs: Needs, allocation: Allocation) -> Iterator[Mismatch]:
    yield from _short("cpu", needs.cpu_millicores, allocation.cpu_millicores, format_cpu)
    yield from _short("memory", needs.memory_bytes, allocation.memory_bytes, format_bytes)
    yield from _short(
        "ephemeral_storage", needs.ephemeral_storage_bytes, allocation.ephemeral_storage_bytes, format_bytes
    )
    yield from _short("gpu", needs.gpu, allocation.gpu, format_count)
    for name, count in needs.resources.items():
        yield from _short(RESOURCE + name, count, allocation.resources.get(name), format_count)
    if needs.platform is not None and not _runs(needs.platform, allocation.platform):
        yield Mismatch("platform", needs.platform, allocation.platform)
    if needs.image is not None:
        yield from _other_image(needs.image, allocation.image or Image())
    for name, value in needs.label.items():
        if allocation.label.get(name) != value:
            yield Mismatch(LABEL + name, value, allocation.label.get(name))


def _short(
    name: str, required: Amount | None, actual: Amount | None, text: Callable[[Amount], str]
) -> Iterator[Mismatch]:
    if required is not None and (actual is None or actual < required):
        yield Mismatch(name, text(required), None if actual is None else text(actual))


def _runs(required: str, actual: str | None) -> bool:
    """Whether the platforms agree in every part that is required; an omitted variant accepts any."""
    parts = required.split("/")
    return actual is not None and actual.split("/")[: len(parts)] == parts


def _other_image(required: str, actual: Image) -> Iterator[Mismatch]:
    _, pinned, digest = required.partition("@")
    satisfied = actual.manifest_digest == digest if pinned else actual.reference == required
    if not satisfied:
        yield Mismatch(_IMAGE, required, actual.manifest_digest if pinned else actual.reference)
