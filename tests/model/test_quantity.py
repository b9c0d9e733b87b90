"""Quantities are exact, whichever way they are written, or they are refused."""

from decimal import Decimal
from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tenure.errors import InvalidQuantity
from tenure.model.quantity import (
    LARGEST,
    Quantity,
    format_bytes,
    format_count,
    format_cpu,
    parse_bytes,
    parse_count,
    parse_cpu,
)

amounts = st.integers(1, LARGEST)


@pytest.mark.parametrize(
    ("given", "millicores"),
    [
        (2, 2000),
        ("2", 2000),
        ("500m", 500),
        ("1.5", 1500),
        (1.5, 1500),
        (0.1, 100),
        ("1e1", 10_000),
        ("2k", 2_000_000),
        (".5", 500),
        ("5.", 5000),
        ("+1", 1000),
        (Decimal("0.25"), 250),
        ("1000000u", 1000),
    ],
)
def test_cpu_is_read_as_millicores(given: Quantity, millicores: int) -> None:
    assert parse_cpu(given) == millicores


@pytest.mark.parametrize(
    ("given", "amount"),
    [
        ("4Gi", 4 * 2**30),
        ("512Mi", 512 * 2**20),
        ("1G", 10**9),
        ("1e9", 10**9),
        ("1E9", 10**9),
        ("1E", 10**18),
        ("128974848", 128974848),
        (7, 7),
        ("2000m", 2),
        ("0.5Ki", 512),
        ("7Ei", 7 * 2**60),
        (1e9, 10**9),
    ],
)
def test_bytes_are_read_exactly(given: Quantity, amount: int) -> None:
    assert parse_bytes(given, name="memory") == amount


@pytest.mark.parametrize(
    ("given", "count"),
    [
        (1, Fraction(1)),
        ("1/2", Fraction(1, 2)),
        ("0.5", Fraction(1, 2)),
        ("500m", Fraction(1, 2)),
        (0.1, Fraction(1, 10)),
    ],
)
def test_counts_may_be_fractions(given: Quantity, count: Fraction) -> None:
    assert parse_count(given, name="gpu") == count


@pytest.mark.parametrize(
    "given",
    [0, "0", "0Gi", -1, "-4Gi", "-0.0", "1.5", "1500m", "1e-1", 0.5, 2**63, "8Ei", "1e9999", "1e99999"],
)
def test_what_is_not_a_positive_whole_number_of_bytes_is_refused(given: Quantity) -> None:
    with pytest.raises(InvalidQuantity, match=r"memory: .*give whole bytes"):
        parse_bytes(given, name="memory")


@pytest.mark.parametrize(
    "given", ["", "x", "1 Gi", "4gi", "1ki", "1K", "1e", "1e1Gi", "--1", "1/0", "٣", "inf", "9" * 65]
)
def test_what_the_grammar_does_not_have_is_refused(given: str) -> None:
    for parse in (parse_cpu, parse_bytes, parse_count):
        with pytest.raises(InvalidQuantity, match="memory"):
            parse(given, name="memory")


@pytest.mark.parametrize("given", [True, None, [], float("nan"), float("inf"), Decimal("NaN")])
def test_what_is_no_number_is_refused(given: object) -> None:
    with pytest.raises(InvalidQuantity, match="no quantity"):
        parse_cpu(given)  # type: ignore[arg-type]


def test_less_than_a_millicore_is_not_rounded() -> None:
    with pytest.raises(InvalidQuantity, match=r"cpu: '0\.1m' would have to be rounded; give cores"):
        parse_cpu("0.1m")
    with pytest.raises(InvalidQuantity, match="rounded"):
        parse_cpu(0.1 + 0.2)


def test_zero_is_allowed_where_it_is_a_fact() -> None:
    assert (parse_cpu(0, zero=True), parse_bytes("0", name="memory", zero=True)) == (0, 0)
    with pytest.raises(
        InvalidQuantity, match="gpu: 0 is zero; leave out what is not needed, or give a count"
    ):
        parse_count(0, name="gpu")


@given(amounts)
def test_the_canonical_text_of_bytes_reads_back_and_is_the_shortest(amount: int) -> None:
    text = format_bytes(amount)
    assert parse_bytes(text, name="memory") == amount
    assert len(text) <= len(str(amount))


@given(amounts)
def test_the_canonical_text_of_cpu_reads_back(millicores: int) -> None:
    assert parse_cpu(format_cpu(millicores)) == millicores


@given(st.fractions(0, 10**9, max_denominator=10**6).filter(bool))
def test_the_canonical_text_of_a_count_reads_back(count: Fraction) -> None:
    assert parse_count(format_count(count), name="gpu") == count


@given(st.integers(1, 10**6), st.sampled_from(["", "k", "M", "G", "T", "Ki", "Mi", "Gi", "Ti"]))
def test_a_suffix_multiplies(number: int, suffix: str) -> None:
    factor = 1024 if suffix.endswith("i") else 1000
    power = "KMGT".index(suffix[0].upper()) + 1 if suffix else 0
    assert parse_bytes(f"{number}{suffix}", name="memory") == number * factor**power


def test_canonical_texts() -> None:
    assert [format_bytes(amount) for amount in (0, 1, 1000, 1024, 1536, 4 * 2**30)] == [
        "0",
        "1",
        "1000",
        "1Ki",
        "1536",
        "4Gi",
    ]
    assert [format_cpu(millicores) for millicores in (0, 500, 2000, 2500)] == ["0", "500m", "2", "2500m"]
