"""What renewal takes for lost."""

from __future__ import annotations

import pytest

from tenure_workers.renewal import lost_pairs

ROUTE, OTHER = "default/book-7/0:render", "default/book-7/1:bind"


@pytest.mark.parametrize(
    ("pairs", "lost", "expected"),
    [
        ([], [], set()),
        ([(ROUTE, 5, True)], [], set()),
        ([(ROUTE, 5, True), (OTHER, 6, False)], [ROUTE], {(ROUTE, 5)}),
        # A slot that was stopped past its lease still shows it, beside the new owner in the same agent.
        ([(ROUTE, 9, True), (ROUTE, 5, True)], [ROUTE], {(ROUTE, 5)}),
        ([(ROUTE, 5, True), (ROUTE, 9, True)], [ROUTE, ROUTE], {(ROUTE, 5), (ROUTE, 9)}),
    ],
)
def test_the_new_owner_of_a_route_is_not_taken_for_the_old_one(
    pairs: list[tuple[str, int, bool]], lost: list[str], expected: set[tuple[str, int]]
) -> None:
    assert lost_pairs(pairs, lost) == expected
