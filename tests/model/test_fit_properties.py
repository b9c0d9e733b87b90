"""A comparison says what the rules say of every property, and more of one thing is never less of another."""

from __future__ import annotations

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from tenure.model.allocation import Allocation, Image
from tenure.model.fit import compare, surplus
from tenure.model.needs import NO_NEEDS, Needs
from tests.model import restated
from tests.model.environments import DIGESTS
from tests.model.restated import AMOUNTS, LARGEST
from tests.model.spelled import Spelled, meaning_of, spelled_allocations, spelled_needs

ALL_THERE_IS: dict[str, Any] = {
    "cpu": f"{LARGEST}m",
    "memory": LARGEST,
    "ephemeral_storage": LARGEST,
    "gpu": LARGEST,
}


def found(needs: Needs, slot: Allocation) -> list[tuple[str, str, str | None]]:
    return [(one.property, one.required, one.actual) for one in compare(needs, slot)]


@given(spelled_needs(), spelled_allocations())
def test_mismatches_are_those_of_the_rules_with_both_sides(one: Spelled, told: Spelled) -> None:
    needs, slot = Needs(**one.given), Allocation(**told.given)
    assert found(needs, slot) == restated.mismatches(one.meaning, told.meaning)


@given(spelled_needs(), spelled_allocations())
def test_a_slot_with_all_that_is_needed_fits_whatever_else_it_has(one: Spelled, told: Spelled) -> None:
    needs = Needs(**one.given)
    given_as = dict(one.given)
    if "image" in given_as:
        name, pinned, digest = given_as["image"].partition("@")
        given_as["image"] = {"manifest_digest": digest} if pinned else name
    slot = Allocation(**told.given).overlaid_by(Allocation(**given_as))
    assert compare(needs, slot) == ()


@given(spelled_needs(), spelled_allocations())
def test_what_is_unknown_satisfies_nothing_and_what_is_omitted_asks_nothing(
    one: Spelled, told: Spelled
) -> None:
    needs, slot = Needs(**one.given), Allocation(**told.given)
    assert [(name, actual) for name, _, actual in found(needs, Allocation())] == [
        (name, None) for name in restated.in_order(one.meaning)
    ]
    assert compare(NO_NEEDS, Allocation()) == compare(NO_NEEDS, slot) == ()


@given(spelled_needs(), spelled_allocations(), st.integers(1, 2**32), st.sampled_from([*AMOUNTS, "fpga"]))
def test_enlarging_an_amount_adds_no_mismatch(one: Spelled, told: Spelled, more: int, name: str) -> None:
    needs, slot = Needs(**one.given), Allocation(**told.given)
    property_ = f"resource.{name}" if name == "fpga" else name
    amount = min(told.meaning.get(property_, 0) + more, LARGEST)
    larger = Allocation(**spell(property_, amount))
    before = {mismatch[0] for mismatch in found(needs, slot)}
    after = {mismatch[0] for mismatch in found(needs, slot.overlaid_by(larger))}
    assert after <= before
    assert before - after <= {property_}


def spell(name: str, amount: Any) -> dict[str, Any]:
    match name.split("."):
        case ["resource", member]:
            return {"resources": {member: amount}}
        case ["cpu"]:
            return {"cpu": f"{amount}m"}
        case _:
            return {name: amount}


@given(spelled_needs(), spelled_allocations())
def test_all_the_memory_there_is_makes_up_for_nothing_else(one: Spelled, told: Spelled) -> None:
    needs, slot = Needs(**one.given), Allocation(**told.given)
    plenty = slot.overlaid_by(Allocation(**ALL_THERE_IS))
    assert found(needs, plenty) == [
        mismatch for mismatch in found(needs, slot) if mismatch[0] not in ALL_THERE_IS
    ]


@given(
    st.sampled_from([f"{name}@{digest}" for name in ("a", "a:1", "b") for digest in DIGESTS]),
    st.none() | st.sampled_from(["a", "a:1", *(f"a@{digest}" for digest in DIGESTS)]),
    st.none() | st.sampled_from(DIGESTS),
    st.none() | st.sampled_from(DIGESTS),
)
def test_a_pinned_image_needs_the_manifest_digest_and_nothing_else(
    pinned: str, reference: str | None, manifest_digest: str | None, image_id: str | None
) -> None:
    slot = Allocation(image=Image(reference=reference, manifest_digest=manifest_digest, image_id=image_id))
    if manifest_digest == pinned.partition("@")[2]:
        assert found(Needs(image=pinned), slot) == []
    else:
        assert found(Needs(image=pinned), slot) == [("image", pinned, manifest_digest)]


@given(
    st.sampled_from(["linux", "windows"]),
    st.sampled_from(["arm", "arm64"]),
    st.from_regex("v[78x]*", fullmatch=True),
)
def test_an_omitted_variant_accepts_any_and_a_given_one_only_itself(os: str, arch: str, variant: str) -> None:
    slot = Allocation(platform=f"{os}/{arch}/{variant}")
    assert compare(Needs(platform=f"{os}/{arch}"), slot) == ()
    assert compare(Needs(platform=f"{os}/{arch}/{variant}"), slot) == ()
    for other in (f"{os}/{arch}/{variant}x", f"{os}/{arch}x", f"{os}x/{arch}"):
        assert found(Needs(platform=other), slot) == [("platform", other, f"{os}/{arch}/{variant}")]
    bare = Allocation(platform=f"{os}/{arch}")
    assert len(compare(Needs(platform=f"{os}/{arch}/{variant}"), bare)) == 1


@given(st.integers(1, 64), st.integers(2, 10**6), st.integers(1, 15))
def test_fractions_of_a_gpu_are_compared_exactly(over: int, under: int, places: int) -> None:
    exact = f"{over}/{under}"
    below, rest = divmod(over * 10**places, under)
    if below:
        assert compare(Needs(gpu=f"{below}e-{places}"), Allocation(gpu=exact)) == ()
        assert (compare(Needs(gpu=exact), Allocation(gpu=f"{below}e-{places}")) == ()) is (rest == 0)
    assert compare(Needs(gpu=exact), Allocation(gpu=f"{below + 1}e-{places}")) == ()


@given(spelled_needs(), spelled_allocations())
def test_surplus_is_what_the_rules_leave_over(one: Spelled, told: Spelled) -> None:
    needs, slot = Needs(**one.given), Allocation(**told.given)
    assert surplus(needs, slot) == restated.surplus(one.meaning, told.meaning)
    assert meaning_of(slot) == told.meaning
