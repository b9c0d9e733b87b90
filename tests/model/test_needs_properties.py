"""Needs and allocations have one form for each meaning, lie over each other by name, and are never junk."""

from __future__ import annotations

import copy
import json
import pickle
from decimal import Decimal
from fractions import Fraction
from typing import Any

import pytest
from hypothesis import assume, example, given
from hypothesis import strategies as st

from tenure.errors import InvalidInput, InvalidQuantity, Malformed
from tenure.model.allocation import Allocation, Image
from tenure.model.needs import NO_NEEDS, Needs, overlay
from tests.model import restated
from tests.model.environments import DIGESTS
from tests.model.spelled import Spelled, meaning_of, spelled_allocations, spelled_needs

KINDS = [Needs, Allocation]

numbers = st.integers() | st.floats() | st.decimals() | st.fractions()
junk = st.recursive(
    st.none() | st.booleans() | numbers | st.text(max_size=6) | st.binary(max_size=3),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.tuples(inner)
        | st.dictionaries(
            st.sampled_from(["zone", "a", "reference", "image_id", ""]) | st.integers(), inner, max_size=2
        )
    ),
    max_leaves=6,
)
words = st.sampled_from(
    [
        *("cpu", "memory", "gpu", "ephemeral-storage", "ephemeral_storage", "platform", "image", "label"),
        *("resources", "resource.", "label.", "image.", "reference", "image_id", "manifest_digest", "a"),
        *("=", "=", "=", ",", ",", " ", "2", "1/3", "500m", "4Gi", "0", "-1", "linux/amd64", "a:1", "eu"),
        *(f"@{DIGESTS[0]}", DIGESTS[1], "\n", "\N{KELVIN SIGN}", "\ud800"),
    ]
)
lines = st.lists(words, max_size=12).map("".join) | st.text()

# Values that no message can show in full: Python refuses to write the one, and cannot follow the other.
HUGE = 10**5000
DEEP: list[Any] = []
for _ in range(5000):
    DEEP = [DEEP]


# -- one form for each meaning ------------------------------------------------------------------------


@given(spelled_needs())
def test_needs_mean_what_was_given_and_say_it_in_one_form(one: Spelled) -> None:
    _has_one_form(Needs(**one.given), one)
    assert str(Needs(**one.given)) == restated.line(one.meaning)


@given(spelled_allocations())
def test_allocations_mean_what_was_told_and_say_it_in_one_form(one: Spelled) -> None:
    _has_one_form(Allocation(**one.given), one)


def _has_one_form(facts: Needs | Allocation, one: Spelled) -> None:
    kind = type(facts)
    assert meaning_of(facts) == one.meaning
    assert facts.is_empty == (not one.meaning)
    data = facts.to_data()
    line = ",".join(f"{name}={text}" for name, text in facts.texts().items())
    assert str(facts) == line
    for again in (
        kind.parse(line),
        kind.from_texts(facts.texts()),
        kind.from_data(data),
        kind.from_data(json.loads(json.dumps(data))),
        pickle.loads(pickle.dumps(facts)),  # noqa: S301
        copy.copy(facts),
        copy.deepcopy(facts),
    ):
        assert again == facts
        assert (hash(again), str(again), repr(again)) == (hash(facts), line, repr(facts))
        assert list(again.to_data().items()) == list(data.items())
        assert json.dumps(again.to_data()) == json.dumps(data)


@given(spelled_needs())
def test_what_was_handed_out_does_not_reach_back(one: Spelled) -> None:
    facts = Needs(**one.given)
    for data in (facts.to_data(), one.given):
        for inner in data.values():
            if isinstance(inner, dict):
                inner.clear()
        data.clear()
    assert meaning_of(facts) == one.meaning
    with pytest.raises(TypeError):
        facts.label["zone"] = "us"  # type: ignore[index]


@pytest.mark.parametrize("nothing", [{"label": {}}, {"resources": {}}, {"image": {}}, {"image": Image()}])
def test_a_caller_who_names_nothing_says_nothing(nothing: dict[str, Any]) -> None:
    assert Allocation(**nothing) == Allocation()
    assert Allocation(**nothing).is_empty


@pytest.mark.parametrize(
    "digest",
    [
        "sha256:" + "a" * 63,
        "sha256:" + "a" * 65,
        "sha512:" + "a" * 64,
        "sha256:" + "A" * 64,
        "md5:" + "a" * 31,
    ],
)
def test_a_digest_that_no_image_can_have_is_refused(digest: str) -> None:
    with pytest.raises(InvalidInput, match=r"^image: "):
        Needs(image=f"a@{digest}")
    with pytest.raises(InvalidInput, match=r"^image\.manifest_digest: "):
        Allocation(image=Image(manifest_digest=digest))


# -- overlay ------------------------------------------------------------------------------------------


@given(st.lists(spelled_needs(), max_size=4))
def test_later_layers_win_by_property_and_by_name(layers: list[Spelled]) -> None:
    merged: dict[str, Any] = {}
    for layer in layers:
        merged |= layer.meaning
    laid = overlay(*(Needs(**layer.given) for layer in layers))
    assert meaning_of(laid) == merged
    assert str(laid) == restated.line(merged)


@given(spelled_needs(), spelled_needs(), spelled_needs())
def test_layers_may_be_merged_in_any_grouping(base: Spelled, scope: Spelled, job: Spelled) -> None:
    a, b, c = (Needs(**one.given) for one in (base, scope, job))
    assert overlay(overlay(a, b), c) == overlay(a, overlay(b, c)) == overlay(a, b, c)
    assert str(overlay(a, overlay(b, c))) == str(overlay(overlay(a, b), c))
    assert overlay(a, NO_NEEDS) == overlay(NO_NEEDS, a) == overlay(a) == overlay(a, a) == a
    assert overlay(overlay(a, b), b) == overlay(a, b)


@given(spelled_allocations(), spelled_allocations())
def test_what_is_told_later_wins_and_an_image_is_told_as_one(first: Spelled, later: Spelled) -> None:
    told = Allocation(**first.given).overlaid_by(Allocation(**later.given))
    kept = first.meaning
    if any(name.startswith("image.") for name in later.meaning):
        # The digest of another image must not stand beside the reference of this one.
        kept = {name: value for name, value in kept.items() if not name.startswith("image.")}
    assert meaning_of(told) == {**kept, **later.meaning}


# -- what is malformed --------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", KINDS)
@given(text=lines)
@example(text="label=a,label.zone=eu")
@example(text="label.zone=eu,label=a")
@example(text="resources=1,resource.fpga=1")
@example(text="image.=a")
@example(text="platform=linux/\N{KELVIN SIGN}")
@example(text="image=a\ud800")
@example(text="image=a\x00")
@example(text=",")
def test_a_line_reads_back_or_is_refused(kind: type[Needs | Allocation], text: str) -> None:
    try:
        facts = kind.parse(text)
    except InvalidInput:
        return
    assert kind.parse(str(facts)) == facts
    assert str(facts).isascii()
    assert facts.is_empty == (not text.strip())


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(
    "text",
    [
        "ephemeral-storage=1Gi,ephemeral_storage=2Gi",
        "image=a:1,image.reference=b:1",
    ],
)
def test_a_property_is_not_given_twice_in_two_spellings(kind: type[Needs | Allocation], text: str) -> None:
    with pytest.raises(InvalidInput, match="given twice"):
        kind.parse(text)


@pytest.mark.parametrize(
    "name",
    ["cpu", "memory", "ephemeral_storage", "gpu", "resource.fpga", "platform", "image", "label.zone"],
)
@given(text=st.text(max_size=8).filter(lambda text: "," not in text and text.strip()))
def test_a_value_that_cannot_be_read_is_refused_with_its_property(name: str, text: str) -> None:
    try:
        facts = Needs.parse(f"{name}={text}")
    except InvalidInput as refusal:
        named = name in str(refusal)
    else:
        named = list(facts.texts()) == [name]
    assert named


@pytest.mark.parametrize("kind", KINDS)
@given(data=junk | st.dictionaries(st.sampled_from(Needs.properties) | junk.map(repr), junk, max_size=3))
@example(data={"label": {}})
@example(data={"resources": {}})
@example(data={"image": {}})
@example(data={"image": {"reference": None}})
@example(data={"image": {"reference": "a:1", "image_id": None}})
def test_stored_junk_is_malformed_and_never_fewer_needs(kind: type[Needs | Allocation], data: object) -> None:
    try:
        facts = kind.from_data(data)
    except Malformed:
        return
    assert isinstance(data, dict)
    assert facts.to_data().keys() == data.keys()
    assert kind.from_data(facts.to_data()) == facts


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(
    "value",
    [HUGE, -HUGE, Fraction(1, HUGE), DEEP, {"a": DEEP}, "1" * 5000, b"1" * 5000],
    ids=["huge", "negative", "tiny", "deep", "deep mapping", "long text", "long bytes"],
)
def test_what_no_message_can_hold_is_refused_with_a_short_one(
    kind: type[Needs | Allocation], value: Any
) -> None:
    stored: list[dict[Any, Any]] = [{name: value} for name in Needs.properties]
    stored += [{"label": {"zone": value}}, {"resources": {"fpga": value}}, {"image": {"reference": value}}]
    if isinstance(value, int | str | bytes):
        stored += [
            {value: "1"},
            {"label": {value: "1"}},
            {"resources": {value: "1"}},
            {"image": {value: "1"}},
        ]
    for data in stored:
        with pytest.raises(Malformed) as refusal:
            kind.from_data(data)
        assert len(str(refusal.value)) < 1000


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(
    "data", [None, False, True, 0, 1, 0.0, "", "cpu=1", b"", [], (), [[]], [{}], [("cpu", 1)], set(), {"cpu"}]
)
def test_only_a_mapping_is_stored_facts_however_empty(kind: type[Needs | Allocation], data: object) -> None:
    with pytest.raises(Malformed, match="where a mapping was expected"):
        kind.from_data(data)
    assert kind.from_data({}) == kind()


@given(spelled_needs(), st.data())
def test_one_wrong_value_spoils_all_that_is_stored(one: Spelled, data: st.DataObject) -> None:
    stored = Needs(**one.given).to_data()
    assume(stored)
    name = data.draw(st.sampled_from(sorted(stored)))
    wrong: Any = data.draw(
        st.none() | st.booleans() | st.just("") | st.lists(st.text(), max_size=2) | st.just({}) | st.just(-1)
    )
    with pytest.raises(Malformed, match=name):
        Needs.from_data({**stored, name: wrong})
    with pytest.raises(Malformed, match="unknown property"):
        Needs.from_data({**stored, f"{name}_new": stored[name]})


@pytest.mark.parametrize("amount", [0, "0", "-0", 0.0, Decimal(0), -1, "-1", -0.5, "-1n", Fraction(-1, 3)])
@pytest.mark.parametrize("name", [*restated.AMOUNTS, "resource.fpga"])
def test_what_is_omitted_is_not_zero_and_zero_or_less_is_an_error(name: str, amount: Any) -> None:
    given_as = {name: amount} if name in restated.AMOUNTS else {"resources": {"fpga": amount}}
    with pytest.raises(InvalidQuantity, match=name):
        Needs(**given_as)
    with pytest.raises(Malformed, match=name):
        Needs.from_data(given_as)
    assert meaning_of(NO_NEEDS) == {}
    assert Allocation(cpu=0) != Allocation()
