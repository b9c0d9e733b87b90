"""The demand of a route: the nearest layer wins, and what was published is read exactly or not at all."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tenure.errors import Malformed, NewerSchema
from tenure.model.demand import Demand, Layer, read_needs, write_needs
from tenure.model.needs import NO_NEEDS, Needs
from tests.model.spelled import Spelled, meaning_of, spelled_needs
from tests.model.test_needs_properties import junk

coordinates = st.none() | st.sampled_from(["0:render", "12:sleep"])


@st.composite
def demands(draw: st.DrawFn) -> Demand:
    recipe, scope, task, job = (
        Needs(**draw(spelled_needs()).given) if draw(st.booleans()) else NO_NEEDS for _ in Layer
    )
    return Demand(recipe, scope, task, job, at=draw(coordinates))


@given(recipe=spelled_needs(), scope=spelled_needs(), task=spelled_needs(), job=spelled_needs())
def test_the_nearest_layer_wins_property_by_property(
    recipe: Spelled, scope: Spelled, task: Spelled, job: Spelled
) -> None:
    """Recipe base, scopes, the task's own, then what the job requires: with more or with less."""
    layers = {"recipe": recipe, "scope": scope, "task": task, "job": job}
    demand = Demand(Needs(**recipe.given), Needs(**scope.given), Needs(**task.given), Needs(**job.given))

    expected: dict[str, Any] = {}
    sources: dict[str, str] = {}
    for name, one in layers.items():
        expected |= one.meaning
        sources |= dict.fromkeys(one.meaning, name)
    assert meaning_of(demand.effective) == expected
    assert demand.sources() == sources
    assert Needs.parse(demand.text) == demand.effective if demand.text else demand.effective == NO_NEEDS


@given(demand=demands())
def test_what_was_published_is_read_back_and_written_no_other_way(demand: Demand) -> None:
    """So "nothing changed" is a comparison of texts (G11)."""
    read = Demand.read(demand.published, where="execution e")

    assert read == demand
    assert read.published == demand.published
    assert read.effective == demand.effective
    assert demand.unscoped == Demand(demand.recipe, task=demand.task, job=demand.job)


def test_a_demand_without_needs_is_published_as_one() -> None:
    assert Demand().published == "{}"
    assert Demand.read("{}", where="execution e") == Demand()


@given(stored=junk | st.dictionaries(st.sampled_from([*Layer, "at", "galaxy"]), junk, max_size=3))
def test_junk_is_malformed_and_never_a_demand_without_needs(stored: Any) -> None:
    """G17."""
    try:
        text = json.dumps(stored)
    except (TypeError, ValueError):
        text = repr(stored)
    for published in (stored, text):
        try:
            read = Demand.read(published, where="execution e7")
        except Malformed:
            continue
        assert (read.effective.is_empty and read.at is None) == (json.loads(published) == {})


@pytest.mark.parametrize(
    ("published", "error"),
    [
        (None, Malformed),
        ('{"job":{"quantum":"1"}}', NewerSchema),
        ('{"galaxy":{"cpu":"1"}}', NewerSchema),
        ('{"job":{}}', Malformed),
        ('{"job":null}', Malformed),
        ('{"at":""}', Malformed),
        ('{"job":{"cpu":"-1"}}', Malformed),
        ("[" * 100_000, Malformed),
    ],
)
def test_a_newer_demand_is_told_from_a_damaged_one(published: object, error: type[Malformed]) -> None:
    """G17: both are errors that name the execution."""
    with pytest.raises(Malformed, match="execution e7") as caught:
        Demand.read(published, where="execution e7: the demand of recipe")
    assert type(caught.value) is error


@given(needs=spelled_needs())
def test_requirements_are_read_as_they_were_written(needs: Spelled) -> None:
    written = write_needs(Needs(**needs.given))

    assert read_needs(written, where="e") == Needs(**needs.given)
    assert write_needs(read_needs(written, where="e")) == written


@pytest.mark.parametrize("text", [None, "", "[]", "null", '{"quantum":"1"}', b"{}", "cpu=1"])
def test_requirements_that_cannot_be_read_are_not_none(text: object) -> None:
    """G17."""
    with pytest.raises(Malformed, match="execution e7"):
        read_needs(text, where="execution e7")
