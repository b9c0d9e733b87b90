"""From recipes and inputs to executions: everything is checked before the first one is stored."""

from __future__ import annotations

import hashlib
import uuid
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Any, Final

from tenure.engine.definitions import RecipeDefinition
from tenure.engine.placement import Code, Wanted
from tenure.engine.shortage import unmet
from tenure.errors import ExecutionExists, InvalidInput, UnknownRecipe
from tenure.model.data import encode, input_hash
from tenure.model.demand import Demand, write_needs
from tenure.model.duration import Duration, parse_duration
from tenure.model.names import check_execution_id
from tenure.model.needs import Needs, check_needs
from tenure.store.answers import StartAnswer
from tenure.store.executions import NewExecution
from tenure.store.keys import RECIPE
from tenure.wiring import Store

LOWEST, DEFAULT, HIGHEST = 0, 5, 9

_KEY_LIMIT: Final = 256
#: How many of the inputs that could not be started an error names.
_NAMED: Final = 5


class Input:
    """The arguments of one execution for `Client.start_many`, and its own id or key if it has one."""

    def __init__(self, *args: Any, id: str | None = None, key: str | None = None, **kwargs: Any) -> None:  # noqa: A002  # the field's word, and a keyword only
        self.args = args
        self.kwargs = kwargs
        self.id = id
        self.key = key

    def __repr__(self) -> str:
        words = [repr(one) for one in self.args]
        words += [f"{name}={value!r}" for name, value in {"id": self.id, "key": self.key}.items() if value]
        words += [f"{name}={value!r}" for name, value in self.kwargs.items()]
        return f"Input({', '.join(words)})"


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """What all executions of one call have in common."""

    needs: Needs | None
    priority: int
    correlation_id: str | None
    delay: Duration | None
    at: datetime | None
    deadline: Duration | None


class Starter:
    """Starts executions of one recipe for one instance."""

    def __init__(self, store: Store, instance: str, recipe: RecipeDefinition[Any], options: Options) -> None:
        if not isinstance(recipe, RecipeDefinition):
            raise UnknownRecipe(f"{recipe!r} is not a recipe; declare it with @recipe")
        if not LOWEST <= options.priority <= HIGHEST:
            raise InvalidInput(
                f"priority {options.priority}: give a whole number from {LOWEST} (last) to {HIGHEST} (first)"
            )
        if options.delay is not None and options.at is not None:
            raise InvalidInput("delay= and at= both say when it may begin; give one of them")
        job_needs = check_needs(options.needs, where="needs")
        self._store = store
        self._instance = instance
        self._recipe = recipe
        self._demand = Demand(recipe=recipe.needs, job=job_needs)
        self._correlation = options.correlation_id
        self._common: dict[str, Any] = {
            "instance": instance,
            "recipe": recipe.name,
            "version": recipe.version,
            "band": HIGHEST - options.priority,
            "demand": self._demand.published,
            "job_needs": write_needs(job_needs),
            "crash_limit": store.settings.crashes,
            "delay": None if options.delay is None else _ms(parse_duration(options.delay, name="delay")),
            "at": None if options.at is None else _epoch_ms(options.at),
            "deadline": (
                None if options.deadline is None else _ms(parse_duration(options.deadline, name="deadline"))
            ),
            # Filled in when it is sent: they age.
            "candidates": (),
            "registry": 0,
        }

    def start(self, given: Input) -> str:
        """Start one; its id. Raises as `Client.start` does."""
        new = self._new(given)
        (answer,) = self._send([new])
        if reason := _refusal(answer):
            raise ExecutionExists(f"{_shown(new, given)} {reason}")
        return new.execution

    def start_many(self, inputs: Iterable[Any]) -> list[str]:
        """Start one per input, in few round trips; their ids in order. Raises as `Client.start_many` does."""
        given = [one if isinstance(one, Input) else Input(one) for one in inputs]
        new: list[NewExecution] = []
        for number, one in enumerate(given):
            try:
                new.append(self._new(one))
            except InvalidInput as error:
                raise type(error)(f"inputs[{number}]: {error}; nothing was started") from error
        refusals = [
            f"inputs[{number}]: {_shown(new[number], given[number])} {reason}"
            for number, answer in enumerate(self._send(new))
            if (reason := _refusal(answer))
        ]
        if refusals:
            unnamed = len(refusals) - _NAMED
            more = f"; and {unnamed} more" if unnamed > 0 else ""
            raise ExecutionExists(
                f"{len(refusals)} of {len(new)} were not started, the others were: "
                f"{'; '.join(refusals[:_NAMED])}{more}"
            )
        return [one.execution for one in new]

    def _new(self, given: Input) -> NewExecution:
        execution = _identify(self._instance, given)
        params = self._recipe.signature.dump_call(given.args, given.kwargs)
        limit = self._store.settings.payload
        return NewExecution(
            execution=execution,
            nonce=uuid.uuid4().hex,
            input_hash=input_hash(params),
            params=encode(params, limit=limit, where=f"the input of {self._recipe.name}"),
            correlation=self._correlation or execution,
            **self._common,
        )

    def _send(self, new: Sequence[NewExecution]) -> list[StartAnswer]:
        placement, wanted = self._store.placement, Wanted(self._demand, Code(recipe=self._recipe.key))
        answers = [StartAnswer.STALE] * len(new)
        # Stale: a session came or went between placement and parking, so look again.
        while stale := [n for n, answer in enumerate(answers) if answer is StartAnswer.STALE]:
            view = placement.view()
            candidates = placement.candidates(view, wanted.needs, wanted.code)
            # One event for all of them, since they want the same: it names the first.
            shortage = (
                None
                if candidates
                else unmet(
                    view,
                    wanted,
                    instance=self._instance,
                    execution=new[stale[0]].execution,
                    capability=RECIPE,
                )
            )
            sent = [
                replace(new[n], candidates=candidates, registry=view.revision, unmet=shortage) for n in stale
            ]
            for n, answer in zip(stale, self._store.executions.start_many(sent), strict=True):
                answers[n] = answer
        return answers


def _identify(instance: str, given: Input) -> str:
    """The execution's id: given, derived from a key, or a new one."""
    if given.key is None:
        return uuid.uuid4().hex if given.id is None else check_execution_id(given.id)
    if given.id is not None:
        raise InvalidInput("id and key are both given; an id names the execution, a key makes one up for it")
    if not 0 < len(given.key) <= _KEY_LIMIT:
        raise InvalidInput(f"{given.key!r:.80} is no key: it is any text of 1 to {_KEY_LIMIT} characters")
    # Any text: one that came from a broken decoding has halves of characters.
    digest = hashlib.sha256(f"{instance}/{given.key}".encode("utf-8", "surrogatepass")).hexdigest()
    return f"key-{digest[:40]}"


def _refusal(answer: StartAnswer) -> str | None:
    """Why it was not started, and what to do; None if it runs."""
    match answer:
        case StartAnswer.CONFLICT:
            return (
                "exists already with another recipe or input; nothing was changed. "
                "Use another id or key, or the same input"
            )
        case StartAnswer.DELETED:
            return "was deleted, and its id is not used again yet"
        case StartAnswer.CREATED | StartAnswer.EXISTS | StartAnswer.STALE:
            return None


def _shown(new: NewExecution, given: Input) -> str:
    return f"execution {new.execution}" + (f" of key {given.key!r}" if given.key is not None else "")


def _ms(duration: timedelta) -> int:
    return int(duration.total_seconds() * 1000)


def _epoch_ms(moment: datetime) -> int:
    if moment.tzinfo is None:
        raise InvalidInput(f"at={moment.isoformat()} has no time zone; give an aware datetime")
    return int(moment.timestamp() * 1000)
