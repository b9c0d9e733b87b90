"""What one slot can really use, as told by whoever provisions it. Never guessed from the host.

What is left out is unknown, and an unknown fact satisfies no explicit need.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import ClassVar, Final, Self

from tenure.errors import InvalidInput
from tenure.model.facts import OWN_NAMES, Facts, told_by
from tenure.model.lines import LABEL, RESOURCE, read_pairs
from tenure.model.needs import DIGEST, Needs, read_image_reference
from tenure.model.quantity import Quantity
from tenure.model.shown import shown

PREFIX: Final = "TENURE_ALLOCATION_"
_VARIABLES: Final[Mapping[str, str]] = {
    "CPU": "cpu",
    "MEMORY": "memory",
    "EPHEMERAL_STORAGE": "ephemeral_storage",
    "GPU": "gpu",
    "PLATFORM": "platform",
    "IMAGE": "image.reference",
    "IMAGE_MANIFEST_DIGEST": "image.manifest_digest",
    "IMAGE_ID": "image.image_id",
}
#: Variables with a comma-separated list, for names that no variable can spell; and what it may look like.
_LISTS: Final[Mapping[str, tuple[str, str]]] = {
    "LABELS": (LABEL, "zone=eu,disk=ssd"),
    "RESOURCES": (RESOURCE, "example.com/fpga=1,license=2"),
}

_DIGEST: Final = re.compile(DIGEST)
_IMAGE_ID: Final = re.compile(r"(?:(?!,)[!-~]){1,512}")


@dataclass(frozen=True, slots=True, kw_only=True)
class Image:
    """The image a slot runs in.

    Only `manifest_digest` satisfies a pinned digest: a reference may have been moved, or name an index of
    several manifests. `image_id` is for diagnosis and proves nothing.
    """

    reference: str | None = None
    manifest_digest: str | None = None
    image_id: str | None = None

    def __post_init__(self) -> None:
        if self.reference is not None:
            read_image_reference(self.reference)
        for name, pattern in (("manifest_digest", _DIGEST), ("image_id", _IMAGE_ID)):
            value = getattr(self, name)
            if value is not None and not (isinstance(value, str) and pattern.fullmatch(value)):
                raise InvalidInput(
                    f"image.{name}: {shown(value)} cannot be read; write it as in 'sha256:0123...'"
                )


@dataclass(frozen=True, slots=True, init=False, repr=False)
class Allocation(Facts):
    """The facts of one slot; as `Needs`, except that zero is a fact and that `image` has three parts.

    `image` also takes a bare reference, or a mapping with the parts of `Image`.
    """

    image: Image | None

    word: ClassVar[str] = "allocations"
    example: ClassVar[str] = "cpu=2,memory=4Gi,platform=linux/amd64,label.zone=eu"
    zero_counts: ClassVar[bool] = True
    properties: ClassVar[tuple[str, ...]] = Needs.properties
    names: ClassVar[tuple[str, ...]] = (*Needs.names, "image.manifest_digest", "image.image_id")

    def __init__(
        self,
        *,
        cpu: Quantity | None = None,
        memory: Quantity | None = None,
        ephemeral_storage: Quantity | None = None,
        gpu: Quantity | None = None,
        resources: Mapping[str, Quantity] | None = None,
        platform: str | None = None,
        image: Image | Mapping[str, str] | str | None = None,
        label: Mapping[str, str] | None = None,
    ) -> None:
        self._set(
            cpu=cpu,
            memory=memory,
            ephemeral_storage=ephemeral_storage,
            gpu=gpu,
            resources=resources,
            platform=platform,
            label=label,
        )
        object.__setattr__(self, "image", None if image is None else _read_image(image))

    @classmethod
    def from_environment(cls, environment: Mapping[str, str]) -> Self:
        """Read `TENURE_ALLOCATION_CPU`, `..._MEMORY`, `..._LABELS=zone=eu,disk=ssd`, and so on.

        Raises:
            InvalidInput: a value that cannot be read, or a variable with this prefix that is not known.
        """
        texts: dict[str, str] = {}
        for variable, text in environment.items():
            if variable.startswith(PREFIX) and text.strip():
                with told_by(variable):
                    told = _read_variable(variable.removeprefix(PREFIX), text.strip())
                    cls.from_texts(told)  # by itself, so that what is wrong is told of this variable
                texts |= told
        return cls.from_texts(texts)

    def _image_texts(self) -> dict[str, str | None]:
        if self.image is None:
            return {}
        return {f"image.{part.name}": getattr(self.image, part.name) for part in fields(Image)}


def _read_variable(suffix: str, text: str) -> dict[str, str]:
    """What a variable tells, named as in the one-line form."""
    if suffix in _VARIABLES:
        return {_VARIABLES[suffix]: text}
    if suffix not in _LISTS:
        known = ", ".join([*_VARIABLES, *_LISTS])
        raise InvalidInput(f"this variable is not known; after {PREFIX} there may be {known}")
    prefix, example = _LISTS[suffix]
    pairs = read_pairs(text, example)
    for name, value in pairs.items():
        if prefix == RESOURCE and name in OWN_NAMES:
            own = PREFIX + name.replace("-", "_").upper()
            raise InvalidInput(f"{name!r} is a property of its own; write {shown(f'{own}={value}')} instead")
    return {prefix + name: value for name, value in pairs.items()}


def _read_image(value: object) -> Image | None:
    match value:
        case Image():
            image = value
        case str():
            image = Image(reference=value)
        case Mapping():
            known = {part.name for part in fields(Image)}
            if unknown := [name for name in value if name not in known]:
                raise InvalidInput(
                    f"image: {shown(unknown[0])} is no part of an image; there are {', '.join(sorted(known))}"
                )
            image = Image(**value)
        case _:
            raise InvalidInput(f"image: {shown(value)} is no image; give its reference or its parts")
    return None if image == Image() else image


def check_allocation(value: object) -> Allocation:
    """Return an allocation as it was given, and one of which nothing is known for None.

    Raises:
        InvalidInput: it is something else; says what to give instead.
    """
    if value is None:
        return Allocation()
    if isinstance(value, Allocation):
        return value
    raise InvalidInput(
        f"allocation: {shown(value)} is no Allocation; write Allocation(memory='8Gi') with what a slot has"
    )
