"""What a task requires of the slot it runs in. What is left out is unspecified, not zero."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import reduce
from typing import Any, ClassVar, Final

from tenure.errors import InvalidInput
from tenure.model.facts import Facts
from tenure.model.quantity import Quantity
from tenure.model.shown import shown

#: A digest of full length: a shorter one would be waited for in vain.
DIGEST: Final = (
    r"(?:sha256:[0-9a-f]{64}|sha384:[0-9a-f]{96}|sha512:[0-9a-f]{128}"
    r"|(?!sha[0-9]+:)[a-z0-9+._-]+:[0-9a-f]{32,128})"
)
# Printable ASCII, without what the one-line form and the digest are told by.
_REFERENCE: Final = re.compile(r"(?:(?![,=@])[!-~]){1,512}(?:@" + DIGEST + ")?")
_BARE_DIGEST: Final = re.compile(r"sha(?:256|384|512):[0-9a-f]{32,128}")


@dataclass(frozen=True, slots=True, init=False, repr=False)
class Needs(Facts):
    """The needs of a recipe, scope, task or job: `Needs(cpu="500m", memory="8Gi", label={"zone": "eu"})`.

    `cpu` is in cores, `memory` and `ephemeral_storage` in bytes, `gpu` and `resources` are counts, all read
    as Kubernetes quantities. `platform` is os/arch with an optional variant. `image` is a tag reference or
    pins a digest with `name@sha256:...`.

    Raises:
        InvalidQuantity: an amount that is malformed, not exact, too large, or not above zero.
        InvalidInput: any other property that cannot be read.
    """

    image: str | None

    word: ClassVar[str] = "needs"
    example: ClassVar[str] = "cpu=2,memory=4Gi,platform=linux/amd64,label.zone=eu"
    zero_counts: ClassVar[bool] = False
    properties: ClassVar[tuple[str, ...]] = (
        "cpu",
        "memory",
        "ephemeral_storage",
        "gpu",
        "resources",
        "platform",
        "image",
        "label",
    )
    names: ClassVar[tuple[str, ...]] = (
        "cpu",
        "memory",
        "ephemeral_storage",
        "gpu",
        "resource.NAME",
        "platform",
        "image",
        "label.NAME",
    )

    def __init__(
        self,
        *,
        cpu: Quantity | None = None,
        memory: Quantity | None = None,
        ephemeral_storage: Quantity | None = None,
        gpu: Quantity | None = None,
        resources: Mapping[str, Quantity] | None = None,
        platform: str | None = None,
        image: str | None = None,
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
        object.__setattr__(self, "image", None if image is None else read_image_reference(image))

    def _image_texts(self) -> dict[str, str | None]:
        return {"image": self.image}


NO_NEEDS: Final = Needs()


def overlay(*layers: Needs) -> Needs:
    """Lay needs over each other, property by property: the later layer wins, with more or with less."""
    return reduce(Needs.overlaid_by, layers, NO_NEEDS)


def check_needs(value: object, *, where: str) -> Needs:
    """Return needs as they were given, and none for None.

    Raises:
        InvalidInput: it is something else; says what to give instead.
    """
    if value is None:
        return NO_NEEDS
    if isinstance(value, Needs):
        return value
    raise InvalidInput(f"{where}: {shown(value)} is no Needs; write Needs(memory='8Gi') with what is needed")


def needs_of(given: object, properties: Mapping[str, Any], *, where: str) -> Needs:
    """Needs that are given as a value, as its properties, or as both; the properties win.

    Raises:
        InvalidInput: `given` is something else, or there is no such property.
    """
    if unknown := [name for name in properties if name not in Needs.properties]:
        raise InvalidInput(
            f"{where}: {unknown[0]!r} is no property of needs; there are {', '.join(Needs.properties)}"
        )
    return overlay(check_needs(given, where=where), Needs(**properties))


def read_image_reference(value: object) -> str:
    """Return an image reference, with or without a digest, as it was given. Raises `InvalidInput`."""
    if isinstance(value, str) and _REFERENCE.fullmatch(value) and not _BARE_DIGEST.fullmatch(value):
        return value
    raise InvalidInput(
        f"image: {shown(value)} is no image reference; write 'host/name:tag', "
        "or 'host/name@sha256:...' to pin"
    )
