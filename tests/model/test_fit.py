"""A slot fits when every explicit need is met by a known fact."""

from fractions import Fraction

import pytest
from hypothesis import given

from tenure.model.allocation import Allocation, Image
from tenure.model.fit import Mismatch, compare, surplus
from tenure.model.needs import NO_NEEDS, Needs
from tests.model.environments import DIGESTS, allocations, needs


@given(needs())
def test_what_is_unknown_satisfies_nothing_and_what_is_not_needed_asks_nothing(one: Needs) -> None:
    assert {mismatch.property for mismatch in compare(one, Allocation())} == set(one.texts())
    assert compare(NO_NEEDS, Allocation()) == ()


def test_mismatches_read_as_sentences() -> None:
    one = Needs(memory="8Gi", cpu=2, label={"zone": "eu"})
    slot = Allocation(memory="4Gi", label={"zone": "us"})
    assert [str(mismatch) for mismatch in compare(one, slot)] == [
        "cpu: needs 2, unknown here",
        "memory: needs 8Gi, has 4Gi",
        "label.zone: needs eu, has us",
    ]


def test_more_memory_never_makes_up_for_another_platform() -> None:
    slot = Allocation(memory="64Gi", platform="linux/arm64")
    assert compare(Needs(memory="1Gi", platform="linux/amd64"), slot) == (
        Mismatch("platform", "linux/amd64", "linux/arm64"),
    )


@pytest.mark.parametrize(
    ("needed", "given_here", "fits"),
    [
        ("linux/arm64", "linux/arm64/v8", True),
        ("linux/arm64/v8", "linux/arm64", False),
        ("linux/arm/v7", "linux/arm/v6", False),
        ("linux/arm", "linux/arm64", False),
    ],
)
def test_an_omitted_variant_accepts_any(needed: str, given_here: str, fits: bool) -> None:  # noqa: FBT001
    assert (compare(Needs(platform=needed), Allocation(platform=given_here)) == ()) is fits


def test_only_the_manifest_digest_satisfies_a_pinned_image() -> None:
    pinned = Needs(image=f"a@{DIGESTS[0]}")
    assert compare(pinned, Allocation(image=Image(reference="b:2", manifest_digest=DIGESTS[0]))) == ()
    for image in (Image(image_id=DIGESTS[0]), Image(reference=f"a@{DIGESTS[0]}")):
        assert compare(pinned, Allocation(image=image)) == (Mismatch("image", f"a@{DIGESTS[0]}", None),)


def test_a_tag_needs_the_same_reference() -> None:
    assert compare(Needs(image="a:1"), Allocation(image="a:1")) == ()
    assert compare(Needs(image="a:1"), Allocation(image="a:2")) == (Mismatch("image", "a:1", "a:2"),)


def test_the_tightest_fit_comes_first() -> None:
    one = Needs(memory="2Gi")
    slots = [
        Allocation(memory="2Gi", cpu=1),
        Allocation(memory="2Gi", cpu=64),
        Allocation(memory="2Gi", cpu=64, label={"kept-for": "audits"}),
        Allocation(memory="2Gi", cpu=64, resources={"fpga": 1}),
        Allocation(memory="4Gi", cpu=1),
        Allocation(memory="2Gi", cpu=1, gpu="1/2"),
        Allocation(memory="2Gi", cpu=1, gpu=1),
    ]
    keys = [surplus(one, slot) for slot in slots]
    assert keys == sorted(set(keys))


@given(needs(), allocations(), allocations())
def test_surplus_orders_any_two_slots(one: Needs, slot: Allocation, other: Allocation) -> None:
    key, other_key = surplus(one, slot), surplus(one, other)
    assert (key < other_key) + (key > other_key) + (key == other_key) == 1
    assert all(part >= 0 for part in key)


def test_what_is_not_needed_is_all_surplus_and_what_is_unknown_is_none() -> None:
    nothing = Fraction(0)
    assert surplus(NO_NEEDS, Allocation(memory=5, cpu=1)) == (nothing, 5, 1000, 0, nothing, 0)
    assert surplus(Needs(memory=5, cpu=1), Allocation(memory=7)) == (nothing, 2, 0, 0, nothing, 0)
