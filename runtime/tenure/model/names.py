"""The rules for names and ids.

Each is a part of a Redis key or of a capability id, so none may contain their separators (`:`, `{`, `}`,
blanks).
"""

import re
from typing import Final

from tenure.errors import InvalidInput

_TASK: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_.-]{0,127}")
_EXECUTION: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,127}")
_INSTANCE: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,62}")
_POOL: Final = re.compile(r"[a-z0-9][a-z0-9-]{0,31}")


def check_task_name(name: str, *, what: str = "task name") -> str:
    """Return `name` if a task, recipe or blueprint node may have it, else raise `InvalidInput`."""
    return _check(
        name,
        _TASK,
        what,
        "a letter or '_', then letters, digits, '_', '.' and '-', at most 128 in all, "
        "for example 'books.render'",
    )


def check_execution_id(execution_id: str) -> str:
    """Return `execution_id` if it follows the rule, else raise `InvalidInput`."""
    return _check(
        execution_id,
        _EXECUTION,
        "execution id",
        "a letter or digit, then letters, digits, '.', '_' and '-', at most 128 in all, for example 'book-7'",
    )


def check_instance_id(instance_id: str) -> str:
    """Return `instance_id` if it follows the rule, else raise `InvalidInput`."""
    return _check(
        instance_id,
        _INSTANCE,
        "instance id",
        "a letter or digit, then letters, digits, '.', '_' and '-', at most 63 in all, for example 'default'",
    )


def check_pool(pool: str) -> str:
    """Return `pool` if it follows the rule, else raise `InvalidInput`."""
    return _check(
        pool,
        _POOL,
        "pool name",
        "a lower-case letter or digit, then lower-case letters, digits and '-', at most 32 in all, "
        "for example 'gpu-large'",
    )


def _check(value: object, pattern: re.Pattern[str], what: str, rule: str) -> str:
    if isinstance(value, str) and pattern.fullmatch(value):
        return value
    raise InvalidInput(f"{value!r} is no {what}: it is {rule}")
