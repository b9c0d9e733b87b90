"""Names and ids follow their rules, and a refusal says the rule."""

from collections.abc import Callable

import pytest

from tenure.errors import InvalidInput
from tenure.model.names import check_execution_id, check_instance_id, check_pool, check_task_name

CHECKS: list[tuple[Callable[[str], str], list[str], list[str]]] = [
    (
        check_task_name,
        ["render", "_x", "books.render-2", "a" * 128],
        ["", "2x", "a:b", "a b", "a\n", "a" * 129],
    ),
    (check_execution_id, ["7", "book-7.a_b", "a" * 128], ["", "-a", ".a", "a/b", "a\n", "é", "a" * 129]),
    (check_instance_id, ["default", "A1", "a" * 63], ["", "_a", "a:b", "a" * 64]),
    (check_pool, ["gpu-large", "0", "a" * 32], ["", "GPU", "a_b", "a.b", "a" * 33]),
]


@pytest.mark.parametrize(("check", "good", "bad"), CHECKS)
def test_a_name_is_accepted_as_it_is_or_refused_with_its_rule(
    check: Callable[[str], str], good: list[str], bad: list[str]
) -> None:
    for name in good:
        assert check(name) == name
    for name in bad:
        with pytest.raises(InvalidInput, match=r"at most .* for example"):
            check(name)


def test_a_task_name_may_be_spoken_of_as_what_it_names() -> None:
    with pytest.raises(InvalidInput, match="'a b' is no recipe name"):
        check_task_name("a b", what="recipe name")
