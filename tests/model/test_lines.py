"""Whoever writes a line otherwise is told how it is written in a line, and by which option it was given."""

from __future__ import annotations

import re

import pytest

from tenure.errors import InvalidInput, InvalidQuantity
from tenure.model.allocation import Allocation
from tenure.model.needs import Needs

KINDS = [Needs, Allocation]
DIGEST = "sha256:" + "0" * 64
VALUES = {
    **dict.fromkeys(Allocation.names, "1"),
    "platform": "linux/amd64",
    "image.manifest_digest": DIGEST,
    "image.image_id": DIGEST,
}


def refusal(kind: type[Needs | Allocation], line: str, source: str = "") -> str:
    with pytest.raises(InvalidInput) as caught:
        kind.parse(line, source=source)
    return str(caught.value)


@pytest.mark.parametrize("kind", KINDS)
def test_every_name_that_is_listed_can_be_written(kind: type[Needs | Allocation]) -> None:
    listed = re.search(r"there are (.*), as in", refusal(kind, "speed=1"))
    assert listed is not None
    names = listed[1].split(", ")
    line = ",".join(f"{name}={VALUES[name]}" for name in names)
    assert set(kind.parse(line).texts()) == {
        "image.reference" if kind is Allocation and name == "image" else name for name in names
    }
    assert kind.parse(line).to_data().keys() == set(kind.properties)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(
    ("line", "hint"),
    [
        ("resources.license=1", "write 'resource.license=1'"),
        ("resources=1", "write 'resource.NAME=1'"),
        ("resource=license=1", "write 'resource.license=1'"),
        ("labels.zone=eu", "write 'label.zone=eu'"),
        ("labels=zone=eu", "write 'label.zone=eu'"),
        ("label=eu", "write 'label.NAME=eu'"),
        ("nvidia.com/gpu=1", "a counted resource is written 'resource.nvidia.com/gpu=1'"),
        ("license=1", "a counted resource is written 'resource.license=1'"),
        ("zone=eu", "a label is written 'label.zone=eu'"),
        ("mem=4Gi", "perhaps 'memory' was meant"),
        ("cpus=0", "perhaps 'cpu' was meant"),
    ],
)
def test_another_spelling_is_answered_with_the_one_that_is_read(
    kind: type[Needs | Allocation], line: str, hint: str
) -> None:
    name = line.partition("=")[0]
    assert refusal(kind, f"cpu=1,{line}").startswith(f"'{name}' is no property; {hint}; there are cpu, ")


def test_a_digest_is_told_by_its_part_and_needed_by_a_pin() -> None:
    assert "an image is pinned with 'image=NAME@sha256:...'" in refusal(
        Needs, f"image.manifest_digest={DIGEST}"
    )
    assert "perhaps 'image.manifest_digest' was meant" in refusal(Allocation, f"image.digest={DIGEST}")


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("line", ["cpu", "cpu=x", "speed=1", ",", "cpu=1,cpu=1", "label.zone=a b"])
def test_a_refusal_begins_with_the_option_that_was_given(kind: type[Needs | Allocation], line: str) -> None:
    plain = refusal(kind, line)
    assert refusal(kind, line, "--option") == f"--option: {plain}"
    assert not plain.startswith(kind.word)


def test_an_amount_that_is_refused_stays_an_invalid_quantity() -> None:
    with pytest.raises(InvalidQuantity, match=r"^--needs: cpu: "):
        Needs.parse("cpu=x", source="--needs")
    with pytest.raises(InvalidQuantity, match=r"^TENURE_ALLOCATION_CPU: cpu: "):
        Allocation.from_environment({"TENURE_ALLOCATION_CPU": "x"})


def test_a_refusal_is_short_however_long_the_line() -> None:
    for line in ("a" * 9999, "a" * 9999 + "=1", "label=" + "a" * 9999, "cpu=1," * 999, "," * 9999):
        assert len(refusal(Needs, line, "--needs")) < 1000
