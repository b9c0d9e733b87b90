"""A function's boundary: from call arguments to recorded parameters and back, and the same for its result.

Both ways are checked. A client that has the function records only what fits it, and the slot that runs it
hands it the types it declares. Parameters are recorded by name, and those left to their defaults are not
recorded: a parameter added with a default later on does not make an older record another input.
"""

from __future__ import annotations

import functools
import inspect
import logging
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from types import SimpleNamespace
from typing import Any, Final, NoReturn, Self, get_type_hints

from tenure.errors import InvalidInput, Malformed
from tenure.model.data import from_plain, to_plain
from tenure.model.plain import Plain

_EMPTY: Final = inspect.Parameter.empty
_BY_NAME: Final = (inspect.Parameter.POSITIONAL_OR_KEYWORD, inspect.Parameter.KEYWORD_ONLY)
_STARRED: Final[Mapping[Any, type]] = {
    inspect.Parameter.VAR_POSITIONAL: list,
    inspect.Parameter.VAR_KEYWORD: dict,
}
_SCALARS: Final = (str, float, bool, bytes)

_log = logging.getLogger(__name__)


@dataclass(frozen=True)
class _Slot:
    """One parameter, or the result: what messages call it, and the type it is checked against."""

    where: str
    annotation: Any
    #: list for `*args` and dict for `**kwargs`, which may be handed over only as such.
    starred: type | None = None

    @cached_property
    def scalar(self) -> Any:
        """The hot path: a scalar that is exactly what it is declared to be needs no adapter."""
        return next((scalar for scalar in _SCALARS if self.annotation is scalar), None)

    def dump(self, value: object) -> Plain:
        if type(value) is self.scalar:
            return value
        return to_plain(value, where=self.where, annotation=self.annotation)

    def load(self, plain: Plain) -> Any:
        if type(plain) is self.scalar:
            return plain
        if self.starred is not None and not isinstance(plain, self.starred):
            raise InvalidInput(f"{self.where}: it has to be a {self.starred.__name__}, not {plain!r:.80}")
        return from_plain(plain, where=self.where, annotation=self.annotation)


class Signature:
    """The boundary of `func`. Parameters in `skip` are given by the engine and are never recorded."""

    def __init__(self, func: Callable[..., object], *, skip: Sequence[str] = ()) -> None:
        self.name: Final[str] = getattr(func, "__qualname__", type(func).__qualname__)
        self._func = func
        self._full: Final = inspect.signature(func)
        if missing := [name for name in skip if name not in self._full.parameters]:
            raise InvalidInput(f"{self.name} has no parameter {missing[0]!r} for the engine to give")
        shown = [parameter for name, parameter in self._full.parameters.items() if name not in skip]
        self._recorded: Final = self._full.replace(parameters=shown)
        self._positional: Final = tuple(
            parameter.name for parameter in shown if parameter.kind is parameter.POSITIONAL_OR_KEYWORD
        )
        #: Whether every parameter has one name and one value, so that binding is a matter of names.
        self._simple: Final = all(parameter.kind in _BY_NAME for parameter in shown)
        self._required: Final = frozenset(
            parameter.name
            for parameter in shown
            if parameter.default is _EMPTY and parameter.kind not in _STARRED
        )

    @classmethod
    def of(cls, func: Callable[..., object], *, injected: str, named: str) -> Self:
        """The boundary of `func` without what the engine gives, as `injected_parameter` finds it."""
        name = injected_parameter(func, injected=injected, named=named)
        return cls(func, skip=() if name is None else (name,))

    def dump_call(self, args: Sequence[object], kwargs: Mapping[str, object]) -> dict[str, Plain]:
        """Name, check and bring to plain data the arguments of one call.

        Raises:
            InvalidInput: an argument is missing, unknown, or does not fit its annotation.
            NotPlainData: an argument would not come back as it went.
        """
        slots = self._slots
        return {name: slots[name].dump(value) for name, value in self._bind(args, kwargs).items()}

    def load_call(
        self, params: Mapping[str, Plain], injected: Mapping[str, object] | None = None
    ) -> tuple[tuple[Any, ...], dict[str, Any]]:
        """Turn recorded parameters into arguments: `func(*args, **kwargs)`.

        Args:
            params: what `dump_call` gave, or plain data that a blueprint or another language made.
            injected: the values of the skipped parameters.

        Raises:
            InvalidInput: a parameter is missing, unknown, or does not fit its annotation.
        """
        slots = self._slots
        for name in params:
            if name not in slots:
                self._refuse(f"it takes no {name!r}, and {name!r} was given; it takes {self._recorded}")
        if missing := self._required - params.keys():
            self._refuse(f"it needs {min(missing)!r}, which was not given; it takes {self._recorded}")
        bound = inspect.BoundArguments(self._full, {})
        values = {name: slots[name].load(plain) for name, plain in params.items()} | dict(injected or {})
        # In the order of the signature, which is what BoundArguments goes by.
        for name, parameter in self._full.parameters.items():
            if name in values:
                starred = parameter.kind is parameter.VAR_POSITIONAL
                bound.arguments[name] = tuple(values[name]) if starred else values[name]
        return bound.args, bound.kwargs

    def dump_result(self, value: object) -> Plain:
        """Check a result and bring it to plain data. Raises `InvalidInput` or `NotPlainData`."""
        return self._result.dump(value)

    def load_result(self, plain: Plain) -> Any:
        """Turn a recorded result into what the function declares.

        Raises:
            Malformed: the record does not fit the annotation, which must have changed since.
        """
        try:
            return self._result.load(plain)
        except InvalidInput as error:
            raise Malformed(f"{error}; the result was recorded by another version of {self.name}") from error

    def _bind(self, args: Sequence[object], kwargs: Mapping[str, object]) -> Mapping[str, object]:
        if self._simple and len(args) <= len(self._positional):
            named = dict(zip(self._positional, args, strict=False))
            if kwargs.keys().isdisjoint(named):
                named |= kwargs
                if named.keys() >= self._required and self._slots.keys() >= named.keys():
                    return named
        try:
            return self._recorded.bind(*args, **kwargs).arguments
        except TypeError as error:
            self._refuse(f"{error}; it takes {self._recorded}", error)

    def _refuse(self, why: str, cause: Exception | None = None) -> NoReturn:
        raise InvalidInput(f"{self.name}: {why}") from cause

    @cached_property
    def _slots(self) -> dict[str, _Slot]:
        slots = {}
        for parameter in self._recorded.parameters.values():
            hint, starred = self._hint(parameter.name, parameter.annotation), _STARRED.get(parameter.kind)
            if starred is list:
                hint = list[hint]  # type: ignore[valid-type]
            elif starred is dict:
                hint = dict[str, hint]  # type: ignore[valid-type]
            slots[parameter.name] = _Slot(f"{self.name}({parameter.name})", hint, starred)
        return slots

    @cached_property
    def _result(self) -> _Slot:
        hint = self._hint("return", self._recorded.return_annotation)
        return _Slot(f"the result of {self.name}", hint)

    def _hint(self, name: str, annotation: Any) -> Any:
        """The type behind an annotation; any plain data where there is none, or none that can be found."""
        if annotation is _EMPTY:
            return Any
        alone, namespace = SimpleNamespace(__annotations__={name: annotation}), _globals_of(self._func)
        try:
            hint = get_type_hints(alone, namespace, include_extras=True)
        except Exception as error:  # noqa: BLE001  # an annotation is an expression and may raise anything
            _log.warning(
                "%s: the annotation %r of %r cannot be resolved (%s); any plain data will do there",
                self.name,
                annotation,
                name,
                error,
            )
            return Any
        return hint[name]


def _globals_of(func: Any) -> dict[str, Any]:
    """Where the names in the annotations of `func` are looked up."""
    while isinstance(func, functools.partial):
        func = func.func
    function = inspect.unwrap(func)
    if not inspect.isroutine(function):
        function = type(function).__call__
    namespace: dict[str, Any] = getattr(function, "__globals__", {})
    return namespace


def injected_parameter(func: Callable[..., object], *, injected: str, named: str) -> str | None:
    """The parameter that the engine gives: the first annotated with a class named `injected`, or `named`.

    By the class's name and not by the class: annotations are texts as often as not, and may exist for the
    type checker only.
    """
    parameters = inspect.signature(func).parameters
    for name, parameter in parameters.items():
        annotation = parameter.annotation
        text = annotation if isinstance(annotation, str) else getattr(annotation, "__name__", "")
        if text.strip("'\"").rpartition(".")[2] == injected:
            return name
    return named if named in parameters else None
