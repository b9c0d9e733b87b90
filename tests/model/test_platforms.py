"""A platform has one spelling, whatever a machine or a person calls it."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tenure.errors import InvalidInput
from tenure.model.allocation import Allocation
from tenure.model.fit import compare
from tenure.model.needs import Needs
from tenure.model.platforms import parse_platform
from tests.model.restated import ARCHITECTURES, SYSTEMS

parts = st.sampled_from(
    [*(one for names in SYSTEMS.values() for one in names)]
    + [part for names in ARCHITECTURES.values() for one in names for part in one.split("/")]
) | st.from_regex(r"[A-Za-z0-9_.-]{1,4}", fullmatch=True)


@pytest.mark.parametrize(
    ("given_as", "means"),
    [
        ("linux/x86_64", "linux/amd64"),
        ("linux/x86-64", "linux/amd64"),
        ("Linux/X86_64/v3", "linux/amd64/v3"),
        ("linux/aarch64", "linux/arm64"),
        ("linux/aarch64/v8", "linux/arm64/v8"),
        ("linux/arm64/8", "linux/arm64/v8"),
        ("linux/i386", "linux/386"),
        ("linux/armhf", "linux/arm/v7"),
        ("linux/armhf/7", "linux/arm/v7"),
        ("linux/armel", "linux/arm/v6"),
        ("linux/arm/5", "linux/arm/v5"),
        ("macOS/arm64", "darwin/arm64"),
        ("linux/arm", "linux/arm"),
        ("linux/arm64/v8", "linux/arm64/v8"),
        ("macos/macos/macos", "darwin/macos/macos"),
        ("x86_64/riscv64", "x86_64/riscv64"),
    ],
)
def test_an_alias_is_the_name_that_images_use(given_as: str, means: str) -> None:
    assert parse_platform(given_as) == Needs(platform=given_as).platform == means
    assert compare(Needs(platform=given_as), Allocation(platform=means)) == ()
    assert compare(Needs(platform=means), Allocation(platform=given_as)) == ()


@pytest.mark.parametrize("given_as", ["linux/armhf/v6", "linux/armel/7", "macos/armhf/x"])
def test_a_name_that_says_its_variant_stands_beside_no_other(given_as: str) -> None:
    with pytest.raises(InvalidInput, match=r"^platform: .* contradicts itself, since arm.. is arm/v"):
        parse_platform(given_as)


@given(st.lists(parts, min_size=2, max_size=3).map("/".join))
def test_the_canonical_spelling_reads_as_itself(given_as: str) -> None:
    try:
        once = parse_platform(given_as)
    except InvalidInput:
        return
    assert parse_platform(once) == once == once.lower()
    assert parse_platform(given_as.upper()) == once
