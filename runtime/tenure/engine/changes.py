"""What is said of a recipe that does not follow its record: both sides, so that people can read them."""

from __future__ import annotations

from itertools import takewhile
from pprint import saferepr
from typing import Final

from tenure.engine.attempt import describe
from tenure.errors import NonDeterministicRecipe, TenureError
from tenure.model.plain import Plain

#: What to do about a recipe that has changed.
_REMEDY: Final = (
    "Nothing is lost. Run the code that made the record, or give the changed recipe a new version"
)

#: What a message shows of a value: so many characters, of which so many come before the first difference.
_SHOWN, _BEFORE = 120, 30


def changed(execution: str, capability: str, what: str) -> NonDeterministicRecipe:
    """The error that says `what` is another than the record at `capability`, and what to do."""
    return NonDeterministicRecipe(execution, capability, f"{what}. {_REMEDY}")


def spelled(plain: Plain) -> str:
    """Plain data in one line, with its keys in order, which is no part of it."""
    return saferepr(plain)


def differing(one: str, other: str) -> tuple[str, str]:
    """Both texts, shortened so that the first difference is seen."""
    same = sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], zip(one, other, strict=False)))
    start = max(0, same - _BEFORE)
    return shown(one, start), shown(other, start)


def shown(text: str, start: int = 0) -> str:
    """A text from `start` on, shortened."""
    end = start + _SHOWN
    return ("…" if start else "") + text[start:end] + ("…" if len(text) > end else "")


def raised(error: BaseException) -> str:
    """An error with its type, which the record leaves out where the text says enough."""
    said = describe(error)
    return f"{type(error).__name__}: {said}" if isinstance(error, TenureError) else said
