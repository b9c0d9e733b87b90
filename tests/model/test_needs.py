"""Needs keep what was written, lie over each other by property, and are never read loosely."""

import copy
import pickle
from fractions import Fraction
from typing import Any

import pytest
from hypothesis import given

from tenure.errors import InvalidInput, InvalidQuantity, Malformed
from tenure.model.needs import NO_NEEDS, Needs, overlay
from tests.model.environments import needs

DIGEST = "sha256:" + "0123456789abcdef" * 4
EVERYTHING = Needs(
    cpu="1.5",
    memory="8Gi",
    ephemeral_storage="1e9",
    gpu="1/2",
    resources={"example.com/fpga": 2},
    platform="Linux/AMD64",
    image=f"registry.example.com/books@{DIGEST}",
    label={"zone": "eu", "disk": "ssd"},
)


def test_every_form_of_a_property_becomes_one_value() -> None:
    assert EVERYTHING.cpu_millicores == 1500
    assert EVERYTHING.memory_bytes == 8 * 2**30
    assert EVERYTHING.ephemeral_storage_bytes == 10**9
    assert EVERYTHING.gpu == Fraction(1, 2)
    assert EVERYTHING.resources == {"example.com/fpga": 2}
    assert EVERYTHING.platform == "linux/amd64"
    assert list(EVERYTHING.label) == ["disk", "zone"]
    assert Needs(memory="1024Mi") == Needs(memory=2**30) == Needs(memory="1Gi")


def test_needs_show_themselves_as_they_may_be_written() -> None:
    assert str(Needs(cpu=2, memory="4096Mi", label={"zone": "eu"})) == "cpu=2,memory=4Gi,label.zone=eu"
    assert repr(Needs(cpu="0.5", label={"zone": "eu"})) == "Needs(cpu='500m', label={'zone': 'eu'})"
    assert Needs.parse(" cpu=2 , ephemeral-storage=1Gi,") == Needs(cpu=2, ephemeral_storage="1Gi")


@given(needs())
def test_needs_read_back_from_each_of_their_forms(one: Needs) -> None:
    assert Needs.parse(str(one)) == one
    assert Needs.from_data(one.to_data()) == one
    assert pickle.loads(pickle.dumps(one)) == copy.deepcopy(one) == one  # noqa: S301
    assert hash(Needs.parse(str(one))) == hash(one)
    assert eval(repr(one)) == one  # noqa: S307


def test_all_properties_read_back() -> None:
    assert set(EVERYTHING.to_data()) == set(Needs.properties)
    assert Needs.from_data(EVERYTHING.to_data()) == Needs.parse(str(EVERYTHING)) == EVERYTHING


@given(needs(), needs(), needs())
def test_the_nearest_layer_wins_property_by_property(base: Needs, scope: Needs, job: Needs) -> None:
    restated: dict[str, str] = base.texts() | scope.texts() | job.texts()
    assert overlay(base, scope, job) == Needs.from_texts(restated)
    assert overlay(base, overlay(scope, job)) == overlay(overlay(base, scope), job)


def test_nearest_wins_and_not_the_larger() -> None:
    assert overlay(Needs(memory="8Gi", cpu=1), Needs(memory="1Gi")) == Needs(memory="1Gi", cpu=1)
    assert overlay() == NO_NEEDS == overlay(NO_NEEDS)


@given(needs())
def test_only_needs_without_any_property_are_empty(one: Needs) -> None:
    assert one.is_empty == (str(one) == "")
    assert NO_NEEDS.is_empty


@pytest.mark.parametrize(
    "data",
    [
        None,
        [],
        "cpu=2",
        {"cpu": "fast"},
        {"cpu": 0},
        {"memory": "1.5"},
        {"memory": None},
        {"speed": 1},
        {1: 2},
        {"label": {"zone": 1}},
        {"label": "eu"},
        {"resources": {"": 1}},
        {"image": {"reference": "a"}},
    ],
)
def test_stored_needs_that_cannot_be_read_are_malformed_and_never_unconstrained(data: object) -> None:
    with pytest.raises(Malformed, match="stored needs"):
        Needs.from_data(data)


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("cpu", "'cpu' is not name=value"),
        ("cpu=", "'cpu=' is not name=value"),
        ("cpu=1,cpu=1", "'cpu' is given twice"),
        ("speed=1", r"'speed' is no property; .* there are cpu, .* as in 'cpu=2"),
        ("memory=fast", r"memory: 'fast' .* '4Gi'"),
        ("resource.gpu=1", "'gpu' is a property of its own"),
        ("label.zone=a b", "'a b' is no label value"),
        ("label.-=a", "'-' is no name"),
        ("platform=linux", "'linux' is no platform; write os/arch"),
        (f"image={DIGEST}", "name@sha256"),
        (
            "image.image_id=a",
            r"^'image.image_id' is no property; an image is pinned with 'image=NAME@sha256:",
        ),
    ],
)
def test_a_line_that_cannot_be_read_says_which_part(text: str, says: str) -> None:
    with pytest.raises(InvalidInput, match=says):
        Needs.parse(text)


@pytest.mark.parametrize("given_as", [{"cpu": 0}, {"memory": "0"}, {"gpu": 0}, {"resources": {"a": 0}}])
def test_nothing_is_no_need(given_as: dict[str, Any]) -> None:
    with pytest.raises(InvalidQuantity, match="zero"):
        Needs(**given_as)
