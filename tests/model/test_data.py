"""Plain data comes back as it went, or it is refused before anything is stored."""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta, timezone
from decimal import Decimal
from enum import Enum, StrEnum
from typing import Annotated, Any, NamedTuple
from uuid import UUID

import msgpack
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import BaseModel, ConfigDict, Field, SecretStr, computed_field

from tenure.errors import InvalidInput, Malformed, NotPlainData, PayloadTooLarge
from tenure.model.data import decode, deep_copy, encode, from_plain, input_hash, to_plain

LIMIT = 1024 * 1024
INSTANT = datetime(2030, 1, 2, 3, 4, 5, 678901, tzinfo=UTC)

hours = st.integers(-12, 14)
scalars = (
    st.none()
    | st.booleans()
    | st.integers(-(2**63), 2**63 - 1)
    | st.floats(allow_nan=False)
    | st.text()
    | st.binary()
    | st.datetimes(timezones=hours.map(lambda offset: timezone(timedelta(hours=offset))))
)
plain_data = st.recursive(
    scalars,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=5), inner, max_size=4),
    max_leaves=20,
)


class Colour(Enum):
    RED = "red"


class Kind(StrEnum):
    BOOK = "book"


class Page(BaseModel):
    model_config = ConfigDict(strict=True, extra="forbid")

    page_id: UUID = Field(alias="id")
    sizes: tuple[int, ...] = ()
    tags: frozenset[str] = frozenset()
    price: Decimal = Decimal("1.10")
    colour: Colour = Colour.RED
    due: timedelta = timedelta(days=-1, microseconds=3)
    printed: date = date(2030, 1, 2)
    naive: datetime = datetime(2030, 1, 2)  # noqa: DTZ001
    scan: bytes = b"\xff\x00"
    by_kind: dict[Kind, int] = {}

    @computed_field  # type: ignore[prop-decorator]
    @property
    def area(self) -> int:
        return sum(self.sizes)


class Book(BaseModel):
    pages: list[Page]


PAGE = Page(id=UUID(int=7), sizes=(1, 2), tags=frozenset("abc"), by_kind={Kind.BOOK: 1})


def stored(value: object, annotation: Any = Any) -> Any:
    raw = encode(to_plain(value, where="it", annotation=annotation), limit=LIMIT, where="it")
    return from_plain(decode(raw, where="it"), where="it", annotation=annotation)


@given(plain_data)
def test_plain_data_comes_back_equal(value: object) -> None:
    try:
        plain = to_plain(value, where="it")
        raw = encode(plain, limit=LIMIT, where="it")
    except NotPlainData as error:
        assert "UTC cannot express" in str(error) or "surrogates" in str(error)  # noqa: PT017
        return
    assert decode(raw, where="it") == plain == value


def test_instants_come_back_in_utc_the_first_time_too() -> None:
    elsewhere = INSTANT.astimezone(timezone(timedelta(hours=5)))
    assert to_plain([elsewhere], where="it")[0].tzinfo is UTC
    assert stored([elsewhere]) == [INSTANT]


def test_tuples_are_lists_the_first_time_too() -> None:
    assert to_plain((1, (2,)), where="it") == [1, [2]]
    assert to_plain(defaultdict(int, a=1), where="it") == {"a": 1}


@dataclass
class Point:
    x: int


class Pair(NamedTuple):
    x: int


ITSELF: list[Any] = []
ITSELF.append(ITSELF)


@pytest.mark.parametrize(
    ("value", "path", "why"),
    [
        ({1}, "", "set is not plain data; .* annotate"),
        ({"pages": [1, 2, 3, {4}]}, r"\.pages\[3\]", "set is not plain data"),
        ({"a b": {"c": object()}}, r"\['a b'\]\.c", "object is not plain data"),
        ({1: 2}, r"\[1\]", "a key is int"),
        ([INSTANT.replace(tzinfo=None)], r"\[0\]", "without time zone"),
        ([2**63], r"\[0\]", "64 bits"),
        (Colour.RED, "", "Colour is not plain data"),
        (Kind.BOOK, "", "Kind is not plain data"),
        (Point(1), "", "Point is not plain data"),
        (Pair(1), "", "Pair is not plain data"),
        (Decimal(1), "", "Decimal is not plain data"),
        (UUID(int=1), "", "UUID is not plain data"),
        (ITSELF, "(\\[0\\])+", "containing itself"),
    ],
)
def test_what_would_not_come_back_as_it_went_is_refused_with_its_path(
    value: object, path: str, why: str
) -> None:
    with pytest.raises(NotPlainData, match=f"^book{path}: .*{why}"):
        to_plain(value, where="book")


@pytest.mark.parametrize(
    ("value", "annotation"),
    [
        (PAGE, Page),
        (Book(pages=[PAGE]), Book),
        ([PAGE, None], list[Page | None]),
        ({"a": Book(pages=[PAGE])}, dict[str, Book]),
        (Colour.RED, Colour),
        (Kind.BOOK, Kind),
        (Point(1), Point),
        (Pair(1), Pair),
        (Decimal("1.10"), Decimal),
        (UUID(int=1), UUID),
        ({UUID(int=1): {1, 2}}, dict[UUID, set[int]]),
        ({1: "a"}, dict[int, str]),
        ((1, "a"), tuple[int, str]),
        (INSTANT, datetime),
        (INSTANT.replace(tzinfo=None), datetime),
        (date(2030, 1, 2), date),
        (timedelta(days=-1, microseconds=3), timedelta),
        (b"\xff", bytes),
        ({Pair(1)}, set[Pair]),
        (3, Annotated[int, Field(gt=2)]),
        ({"a": [1, None]}, dict[str, list[int | None]]),
        ((1, 2), tuple[int, ...]),
        ({UUID(int=1): {"a": [1]}}, dict[UUID, Any]),
    ],
)
def test_an_annotation_brings_values_back_as_they_went(value: object, annotation: Any) -> None:
    back = stored(value, annotation)
    assert back == value
    assert type(back) is type(value)


def test_a_model_without_an_annotation_comes_back_as_its_fields() -> None:
    back = stored({"book": Book(pages=[PAGE])})
    assert from_plain(back["book"], where="it", annotation=Book) == Book(pages=[PAGE])
    assert "area" not in back["book"]["pages"][0]


def test_sets_have_one_order() -> None:
    plain = to_plain({"b", "a", "c"}, where="it", annotation=set[str])
    assert plain == ["a", "b", "c"]


def test_what_does_not_fit_its_annotation_says_where() -> None:
    with pytest.raises(InvalidInput, match=r"^book: pages\[0\]\.sizes: Input should be a valid tuple, not 7"):
        to_plain({"pages": [{"id": UUID(int=1), "sizes": 7}]}, where="book", annotation=Book)
    with pytest.raises(InvalidInput, match="it: Input should be a valid integer"):
        from_plain("x", where="it", annotation=int)


class Loose(BaseModel):
    model_config = ConfigDict(arbitrary_types_allowed=True)

    anything: Any = None


@pytest.mark.parametrize(
    ("value", "annotation", "why"),
    [
        (SecretStr("x"), SecretStr, "secret"),
        ({(1, 2): 3}, dict[tuple[int, int], int], "a key is tuple"),
        (Loose(anything=object()), Loose, r"\.anything: object"),
        (Loose(anything={1: 1, "1": 1}), Loose, "two keys"),
        ({"a": {1}}, dict[str, Any], r"\.a: set"),
        ([UUID(int=1)], list, r"\[0\]: UUID"),
        ((1, {2}), tuple[int, ...] | Sequence[Any], r"\[1\]: set"),
        (2**64, int, "64 bits"),
        (object(), object, "object is not plain"),
        (Point, type[Point], "is not plain"),
    ],
)
def test_no_annotation_makes_up_for_what_cannot_come_back(value: object, annotation: Any, why: str) -> None:
    with pytest.raises(NotPlainData, match=why):
        to_plain(value, where="it", annotation=annotation)


def test_a_type_without_a_schema_leaves_plain_data() -> None:
    class Opaque:
        pass

    assert stored({"a": 1}, Opaque) == {"a": 1}
    with pytest.raises(NotPlainData, match="Opaque is not plain data"):
        to_plain(Opaque(), where="it", annotation=Opaque)


def test_too_large_names_the_limit_and_a_way_out() -> None:
    assert len(encode("a" * 10, limit=12, where="it")) == 12
    with pytest.raises(
        PayloadTooLarge, match=r"result of render: 13 bytes are over the limit of 12; .* reference"
    ):
        encode("a" * 11, limit=12, where="result of render")


def test_text_that_is_not_unicode_is_refused() -> None:
    with pytest.raises(NotPlainData, match=r"it: .*surrogates"):
        encode(["\ud800"], limit=LIMIT, where="it")


def test_what_is_not_plain_cannot_be_encoded() -> None:
    for value in ({1}, object(), 2**64, ITSELF):
        with pytest.raises(NotPlainData, match="it: "):
            encode(value, limit=LIMIT, where="it")


GOOD = encode({"a": [1, "b"]}, limit=LIMIT, where="it")


@pytest.mark.parametrize(
    "raw",
    [
        b"",
        GOOD[:1],
        GOOD[:-1],
        GOOD + b"\x00",
        b"\x00" + GOOD[1:],
        b"\x02" + GOOD[1:],
        b"\x01\xc1",
        b"\x01\xa1\xff",
        b"\x01" + b"\x91" * 2000,
        b"\x01" + msgpack.packb({1: 2}),
        b"\x01" + msgpack.packb(msgpack.ExtType(5, b"x")),
        b"\x01" + msgpack.packb(msgpack.Timestamp(2**62)),
    ],
)
def test_bytes_that_cannot_be_read_are_malformed(raw: bytes) -> None:
    with pytest.raises(Malformed, match=r"^execution a: the stored data"):
        decode(raw, where="execution a")


@given(st.binary())
def test_garbage_is_malformed_or_plain(raw: bytes) -> None:
    try:
        decode(b"\x01" + raw, where="it")
    except Malformed as error:
        assert "it: " in str(error)  # noqa: PT017


def test_a_newer_schema_is_named() -> None:
    with pytest.raises(Malformed, match="schema version 2, and this is version 1"):
        decode(b"\x02\xc0", where="it")


@given(st.dictionaries(st.text(max_size=3), plain_data, max_size=4))
def test_the_order_of_keys_does_not_change_a_hash(value: Mapping[str, object]) -> None:
    turned = dict(reversed(list(value.items())))
    try:
        assert input_hash(to_plain(value, where="")) == input_hash(to_plain(turned, where=""))
    except (NotPlainData, UnicodeEncodeError):
        return


def test_hashes_are_short_stable_and_tell_values_apart() -> None:
    assert input_hash({"b": [1], "a": {"d": None, "c": 1}}) == "d50d39913fe64c8f1e496518745848bd"
    values: list[object] = [1, 1.0, True, "1", b"1", [1], {"1": 1}, None, [], {}]
    assert len({input_hash(value) for value in values}) == len(values)


@given(plain_data)
def test_a_deep_copy_is_equal_and_shares_nothing(value: object) -> None:
    copy = deep_copy(value)
    assert copy == value
    if isinstance(copy, list):
        copy.append(1)
    if isinstance(copy, dict):
        copy["new"] = 1
    if isinstance(copy, list | dict):
        assert copy != value
