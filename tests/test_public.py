"""`tenure.__all__` is what is public, and every public thing has a docstring."""

from __future__ import annotations

import inspect
from types import ModuleType

import pytest

import tenure


def test_all_names_what_the_package_binds() -> None:
    bound = {
        name
        for name, value in vars(tenure).items()
        if not name.startswith("_") and not isinstance(value, ModuleType)
    }
    assert set(tenure.__all__) == bound
    assert list(tenure.__all__) == sorted(tenure.__all__)


@pytest.mark.parametrize("name", tenure.__all__)
def test_every_public_name_has_a_docstring(name: str) -> None:
    thing = getattr(tenure, name)
    assert inspect.getdoc(thing)
    if inspect.isclass(thing):
        own = [m for m in vars(thing) if not m.startswith("_") and callable(getattr(thing, m))]
        undocumented = [m for m in own if not inspect.getdoc(getattr(thing, m))]
        assert undocumented == []


def test_the_error_tree_in_its_docstring_is_the_one_in_the_code() -> None:
    from tenure import errors  # noqa: PLC0415  # next to what is compared

    def draw(kind: type, depth: int) -> list[tuple[int, str]]:
        rows = [(depth, kind.__name__)]
        children = [k for k in vars(errors).values() if isinstance(k, type) and kind in k.__bases__]
        return rows + [row for child in children for row in draw(child, depth + 1)]

    drawn = []
    for line in (errors.__doc__ or "").splitlines():
        word = line.lstrip(" │├└─").split(" ")[0]
        if word and word.isidentifier() and word in vars(errors):
            drawn.append(((len(line) - len(line.lstrip(" │├└─"))) // 4 - 1, word))
    assert drawn == draw(errors.TenureError, 0)
