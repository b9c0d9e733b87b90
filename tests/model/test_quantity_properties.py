"""A quantity is what exact arithmetic makes of it, or it is refused; there is nothing in between."""

from __future__ import annotations

from collections.abc import Callable
from decimal import Decimal
from fractions import Fraction
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from tenure.errors import InvalidQuantity
from tenure.model.quantity import (
    Quantity,
    format_bytes,
    format_count,
    format_cpu,
    parse_bytes,
    parse_count,
    parse_cpu,
)
from tests.model import restated
from tests.model.restated import LARGEST
from tests.model.spelled import spellings

digits = st.text(restated.DIGITS, max_size=24)
numbers = st.builds(
    "{}{}{}{}".format, st.sampled_from(["", "+", "-"]), digits, st.sampled_from(["", "."]), digits
)
exponents = st.builds(
    "{}{}{}".format, st.sampled_from("eE"), st.sampled_from(["", "+", "-", "0", "-00"]), st.integers(0, 30)
)
quantities = st.builds("{}{}".format, numbers, st.sampled_from(list(restated.FACTORS)) | exponents)
junk = st.text("0123456789.+-eEkKMGTPEimnu/_ ٣x", max_size=8)
whole_amounts = st.integers(0, LARGEST) | st.sampled_from([LARGEST, 2**62, 2**60 * 7, 10**18, 1000, 1024])
counts = st.fractions(0, 10**6, max_denominator=10**6) | st.builds(
    Fraction, st.integers(0, LARGEST), st.integers(1, LARGEST)
)


PARSERS: dict[str, Callable[..., Any]] = {"cpu": parse_cpu, "bytes": parse_bytes, "count": parse_count}


def expected(text: str, kind: str, *, zero: bool) -> int | Fraction | None:
    number = restated.quantity(text)
    match kind:
        case "cpu":
            return restated.whole(None if number is None else number * 1000, zero=zero)
        case "bytes":
            return restated.whole(number, zero=zero)
        case _:
            return restated.count(restated.ratio(text) if number is None else number, zero=zero)


def read(given_as: Any, kind: str, *, zero: bool) -> int | Fraction | None:
    """What is read, or None where it is refused; any other error is one of the code."""
    try:
        value: int | Fraction = PARSERS[kind](given_as, name="amount", zero=zero)
    except InvalidQuantity as refusal:
        named = str(refusal).startswith("amount: ")
    else:
        return value
    assert named, "a refusal that does not name the property"
    return None


kinds = pytest.mark.parametrize("kind", ["cpu", "bytes", "count"])


@kinds
@given(text=quantities | junk, zero=st.booleans())
@example(text="1e-00000", zero=False)
@example(text="1e00001", zero=False)
@example(text=".", zero=True)
@example(text="+.5E", zero=True)
@example(text="1.1.M", zero=False)
@example(text="1E+3", zero=False)
@example(text="1E3k", zero=False)
@example(text=" 1", zero=False)
@example(text="1\n", zero=False)
@example(text="1/2", zero=False)
@example(text="9223372036854775807", zero=False)
@example(text="9223372036854775808", zero=False)
@example(text="9223372036854775.807", zero=False)
@example(text="9223372036854775.808", zero=False)
@example(text="-0", zero=True)
@example(text="-1n", zero=True)
def test_a_text_is_what_the_grammar_says_or_refused(kind: str, text: str, zero: bool) -> None:  # noqa: FBT001
    assert read(text, kind, zero=zero) == expected(text, kind, zero=zero)


@kinds
@given(number=counts, zero=st.booleans())
def test_every_exact_spelling_of_a_number_means_the_same(kind: str, number: Fraction, zero: bool) -> None:  # noqa: FBT001
    if kind == "count":
        want: int | Fraction | None = restated.count(number, zero=zero)
    else:
        want = restated.whole(number * 1000 if kind == "cpu" else number, zero=zero)
    assert {read(spelling, kind, zero=zero) for spelling in spellings(number)} == {want}


@kinds
@given(text=digits.filter(bool), exponent=st.integers(100, 10**40) | st.integers(-(10**40), -100))
def test_an_exponent_beyond_reason_is_refused_at_once(kind: str, text: str, exponent: int) -> None:
    assert read(f"{text}e{exponent}", kind, zero=False) is None
    assert read(Decimal(f"1e{exponent % 10**6 + 100}"), kind, zero=True) is None


def test_a_refusal_gives_the_reason_that_is_true() -> None:
    for given_as, reason in [
        (Decimal("1e1000000"), "is too large"),
        ("1e1000000", "is too large"),
        ("1e-1000000", "would have to be rounded"),
        ("-0.5", "is negative"),
        ("0e9", "is zero"),
        ("1." + "0" * 70, "is too long"),
    ]:
        for parse in PARSERS.values():
            with pytest.raises(InvalidQuantity, match=f"^memory: .*{reason}"):
                parse(given_as, name="memory")
    with pytest.raises(InvalidQuantity, match="would have to be rounded"):
        parse_count(Fraction(LARGEST + 2, LARGEST), name="gpu")


@kinds
@given(number=st.floats() | st.decimals() | st.integers() | st.integers(1, 10**6).map(lambda n: n / 1000))
def test_a_number_is_the_text_python_shows_for_it(kind: str, number: float | Decimal) -> None:
    value = read(number, kind, zero=True)
    assert value == read(str(number), kind, zero=True)
    if value is not None:
        assert value == Fraction(str(number)) * (1000 if kind == "cpu" else 1)


@kinds
@given(number=st.integers(LARGEST + 1, 2**70))
@example(number=10**5000)
def test_what_does_not_fit_is_refused_and_never_the_largest(kind: str, number: int) -> None:
    for given_as in (number, -number, Fraction(number), Fraction(-number), Fraction(1, number)):
        assert read(given_as, kind, zero=True) is None


@kinds
@given(
    given_as=st.none()
    | st.booleans()
    | st.binary()
    | st.complex_numbers()
    | st.lists(st.integers())
    | st.dictionaries(st.text(), st.integers())
)
def test_what_is_no_number_is_refused(kind: str, given_as: object) -> None:
    assert read(given_as, kind, zero=True) is None


@given(whole_amounts)
def test_canonical_texts_of_whole_amounts_read_back_and_have_one_form(amount: int) -> None:
    assert format_bytes(amount) == restated.text("memory", amount)
    assert parse_bytes(format_bytes(amount), name="memory", zero=True) == amount
    assert format_cpu(amount) == restated.text("cpu", amount)
    assert parse_cpu(format_cpu(amount), zero=True) == amount


@given(counts)
def test_canonical_texts_of_counts_read_back_and_have_one_form(count: Fraction) -> None:
    text = format_count(count)
    assert text == restated.text("gpu", count)
    assert parse_count(text, name="gpu", zero=True) == count
    over, under = 3 * count.numerator, 3 * count.denominator
    assert format_count(parse_count(f"{over}/{under}", name="gpu", zero=True)) == text


@given(st.integers(1, 10**6), st.integers(1, 12))
def test_decimals_that_come_close_to_a_fraction_are_not_it(over: int, places: int) -> None:
    third = parse_count(f"{over}/3", name="gpu")
    near = parse_count(f"{over * 10**places // 3}e-{places}", name="gpu")
    assert (near < third) == (over % 3 != 0)
    assert (near == third) == (over % 3 == 0)


@pytest.mark.parametrize("given_as", ["1/2", "4/2"])
def test_only_counts_are_given_as_ratios(given_as: Quantity) -> None:
    for parse in (parse_cpu, parse_bytes):
        with pytest.raises(InvalidQuantity, match="is no quantity"):
            parse(given_as, name="memory")
