"""Read-only replay of what is stored: of one execution, or of all that run, to see what some code breaks."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING, Any, assert_never

from tenure.client.handle import not_found
from tenure.engine.changes import differing, raised
from tenure.engine.definitions import Definitions, RecipeDefinition, find_recipe
from tenure.engine.ending import Ending, Raised, Replayed, Stopped, ended_from_outside
from tenure.engine.replay import Observer, check_observer, replay
from tenure.errors import (
    Malformed,
    MissReason,
    NonDeterministicRecipe,
    RecipeMisfit,
    ReplayCacheMiss,
    UnknownRecipe,
)
from tenure.model.names import check_execution_id
from tenure.model.status import ExecutionStatus
from tenure.store.recordings import Recording

if TYPE_CHECKING:
    from tenure.wiring import Store


class Verdict(StrEnum):
    """What a recipe's code makes of an execution that it did not make, or made at another time."""

    OK = "ok"
    #: It asks for something else than is recorded.
    CHANGED = "changed"
    #: It raises what is not recorded, and so a worker would fail the execution.
    WOULD_FAIL = "would_fail"
    #: The pinned name and version is not among the code.
    NO_CODE = "no_code"
    #: What is stored cannot be read, by anybody or by this code.
    UNREADABLE = "unreadable"
    #: It was stored through the model: no recipe of it runs.
    NO_RECIPE = "no_recipe"

    @property
    def breaks(self) -> bool:
        """Whether an execution could not go on with this code."""
        return self not in (Verdict.OK, Verdict.NO_RECIPE)


@dataclass(frozen=True, slots=True, kw_only=True)
class Check:
    """The verdict on one execution, and in one sentence why."""

    instance: str
    execution: str
    #: `name@version`; None if it cannot be read, or there is none.
    recipe: str | None
    verdict: Verdict
    detail: str
    status: ExecutionStatus | None = None
    #: Where the record has no more, or other things than the recipe asks for; `recipe` for its end.
    capability: str | None = None
    #: What is missing there.
    reason: MissReason | None = None
    #: What the recipe's own code, or its comparison with the record, has raised.
    error: BaseException | None = None


def read(store: Store, instance: str, execution: str) -> Recording:
    """One execution as it is now. Raises `ExecutionNotFound` or `Malformed`."""
    recording = store.recordings.read(instance, check_execution_id(execution))
    if recording is None:
        raise not_found(instance, execution)
    return recording


def recipe_of(recording: Recording, given: RecipeDefinition[Any] | None = None) -> RecipeDefinition[Any]:
    """The code to replay it with: what is given, or what is loaded here. Raises `UnknownRecipe`."""
    where = f"execution {recording.stored.id}"
    if recording.code is None:
        raise UnknownRecipe(
            f"{where} was stored through the model; no recipe of it runs, so none is replayed"
        )
    if given is not None and not isinstance(given, RecipeDefinition):
        raise UnknownRecipe(f"{given!r} is not a recipe; declare it with @recipe")
    found = given or find_recipe(recording.code)
    if found is None:
        raise UnknownRecipe(_not_loaded(recording))
    return found


def replay_stored(
    store: Store,
    instance: str,
    execution: str,
    observer: Observer | None,
    recipe: RecipeDefinition[Any] | None,
) -> Replayed:
    """As `Client.replay` says."""
    check_observer(observer)
    recording = read(store, instance, execution)
    definition = recipe_of(recording, recipe)
    ending = replay(definition, recording, observer=observer, payload_limit=store.settings.payload)
    match ending:
        case Replayed():
            return ending
        case Stopped(error) | Raised(error):
            raise error
        case _:
            assert_never(ending)


def check(
    recording: Recording,
    definition: RecipeDefinition[Any],
    *,
    observer: Observer | None = None,
    payload_limit: int,
) -> Check:
    """What the code makes of one execution. Raises what the observer does."""
    stored = recording.stored
    ending = replay(definition, recording, observer=observer, payload_limit=payload_limit)
    error = None if isinstance(ending, Replayed) else ending.error
    told = error if isinstance(ending, Stopped) else None
    return Check(
        instance=stored.instance,
        execution=stored.id,
        recipe=recording.code,
        status=stored.status,
        verdict=_verdict(recording, ending),
        detail=_sentence(recording, ending),
        capability=told.capability if isinstance(told, (ReplayCacheMiss, NonDeterministicRecipe)) else None,
        reason=told.reason if isinstance(told, ReplayCacheMiss) else None,
        error=error,
    )


def check_running(
    store: Store, definitions: Definitions, *, instance: str | None, recipes: Collection[str] = ()
) -> Iterator[Check]:
    """What the code makes of each execution that runs, oldest first; one at a time is held.

    Those that have ended or were deleted before it is their turn are left out. One that cannot be read may be
    of any recipe.

    Args:
        instance: the one that is meant; None for all of the namespace.
        recipes: the names of those that are meant; none for all.
    """
    for owner, execution in store.recordings.live():
        if instance not in (None, owner):
            continue
        try:
            recording = store.recordings.read(owner, execution)
        except Malformed as error:
            yield Check(
                instance=owner,
                execution=execution,
                recipe=None,
                verdict=Verdict.UNREADABLE,
                detail=_without_name(execution, str(error)),
                error=error,
            )
            continue
        if recording is None or recording.stored.is_terminal:
            continue
        if not recipes or (recording.code is not None and recording.stored.recipe in recipes):
            yield _check_by_name(recording, definitions, payload_limit=store.settings.payload)


def _check_by_name(recording: Recording, definitions: Definitions, *, payload_limit: int) -> Check:
    definition = definitions.recipes.get(recording.code or "")
    if definition is not None:
        return check(recording, definition, payload_limit=payload_limit)
    has_recipe = recording.code is not None
    return Check(
        instance=recording.stored.instance,
        execution=recording.stored.id,
        recipe=recording.code,
        status=recording.stored.status,
        verdict=Verdict.NO_CODE if has_recipe else Verdict.NO_RECIPE,
        detail=_imported(recording, definitions) if has_recipe else "no recipe of it runs",
    )


def _imported(recording: Recording, definitions: Definitions) -> str:
    name, version = recording.stored.recipe, recording.stored.version
    versions = sorted(one.version for one in definitions.recipes.values() if one.name == name)
    if not versions:
        return (
            f"no version of {name} is imported; name its module with --import, or with --recipe the recipes "
            "that are meant"
        )
    return (
        f"imported of {name}: {', '.join(versions)}, and not {version}; keep the code of version {version} "
        "until no execution of it runs"
    )


def _verdict(recording: Recording, ending: Ending) -> Verdict:
    match ending:
        case Replayed():
            return Verdict.OK
        case Raised():
            return Verdict.WOULD_FAIL
        case Stopped(NonDeterministicRecipe()):
            return Verdict.CHANGED
        case Stopped(Malformed()):
            return Verdict.UNREADABLE
        case Stopped(ReplayCacheMiss() as miss):
            return _verdict_on_miss(recording, miss)
        case _:
            raise AssertionError(ending)


def _verdict_on_miss(recording: Recording, miss: ReplayCacheMiss) -> Verdict:
    stored = recording.stored
    if not stored.is_terminal or ended_from_outside(stored):
        return Verdict.OK
    # Its recipe came to its end, so everything that it asked for is recorded.
    return Verdict.UNREADABLE if miss.reason is MissReason.JOB_RESULT_MISSING else Verdict.CHANGED


def _sentence(recording: Recording, ending: Ending) -> str:
    match ending:
        case Replayed():
            return _sentence_on_end(recording, ending)
        case Raised(RecipeMisfit() as error):
            return error.message
        case Raised(error):
            return f"the recipe's own code raises {raised(error)}"
        case Stopped(error):
            return _without_name(recording.stored.id, str(error))
        case _:
            assert_never(ending)


def _sentence_on_end(recording: Recording, replayed: Replayed) -> str:
    end = f"{replayed.status}: {replayed.error}"
    if replayed.status is ExecutionStatus.COMPLETED:
        return "replays to its recorded result"
    if replayed.raised is None:
        return f"replays to its recorded end, {end}"
    if ended_from_outside(recording.stored):
        return (
            f"was ended from outside its recipe, {end}; where the record ends, that raises {replayed.raised}"
        )
    now, was = differing(replayed.raised, replayed.error or "")
    return f"fails as it is recorded, though with another text: now {now}, recorded {was}"


def _without_name(execution: str, text: str) -> str:
    """For a row or a table that names the execution already."""
    return text.removeprefix(f"execution {execution}: ")


def _not_loaded(recording: Recording) -> str:
    return (
        f"execution {recording.stored.id}: its recipe {recording.code} is not loaded here; import its module "
        "or give recipe=, or on a command line name the module with --import or in TENURE_IMPORT"
    )
