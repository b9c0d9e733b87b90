"""A capability id reads back as exactly the coordinates that gave it."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tenure.errors import InvalidInput
from tenure.model.coordinates import Coordinates

ordinals = st.integers(0, 10**9)


@given(ordinals, st.from_regex(r"[A-Za-z_][A-Za-z0-9_.-]{0,20}", fullmatch=True), st.none() | ordinals)
def test_ids_read_back(ordinal: int, task: str, index: int | None) -> None:
    coordinates = Coordinates(ordinal, task, index)
    assert Coordinates.parse(coordinates.capability_id) == coordinates


def test_a_name_with_dots_and_digits_stays_one_name() -> None:
    assert Coordinates(3, "a.17").capability_id == "3:a.17"
    assert str(Coordinates(3, "a.17", 17)) == "3:a.17:17"


@pytest.mark.parametrize(
    "text", ["", "3", "3:", ":a", "a:3", "03:a", "3:a:", "3:a:01", "3:a:b", "3:a:1:2", "3:a\n", "٣:a"]
)
def test_no_other_text_is_an_id(text: str) -> None:
    with pytest.raises(InvalidInput):
        Coordinates.parse(text)


def test_coordinates_count_from_zero() -> None:
    with pytest.raises(InvalidInput, match="count from 0"):
        Coordinates(0, "a", -1)
    with pytest.raises(InvalidInput, match="task name"):
        Coordinates(0, "a:b")
