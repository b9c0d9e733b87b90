"""Whether what is stored can be read, and whether what waits for a slot waits in vain."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Final

from tenure.cli.doctor.findings import Finding
from tenure.cli.words import amount, roughly
from tenure.engine.placement import Placement, Wanted, wanted_by
from tenure.errors import Malformed, NewerSchema
from tenure.store.keys import split_member
from tenure.store.sessions import RegistryView
from tenure.store.stored import Record
from tenure.store.survey import HeaderSurvey, survey_headers, survey_routes
from tenure.wiring import Store

_PAGE: Final = 500

Read = tuple[Record | None, str] | Malformed


@dataclass(slots=True)
class Tally:
    """How many there are of a kind, and the first that was met."""

    count: int = 0
    example: str = ""
    #: What is to be said of the example, and since when it waits, in ms of the store's clock.
    detail: str = ""
    since: int = 0

    def add(self, route: str, detail: str, *, since: int = 0) -> None:
        """Count one."""
        if not self.count:
            self.example, self.detail, self.since = route, detail, since
        self.count += 1

    def waits(self, now: int) -> str:
        """The example in words, with how long it has waited."""
        return f"{self.subject} for {roughly(timedelta(milliseconds=max(0, now - self.since)))}"

    @property
    def subject(self) -> str:
        """The example in words."""
        _, execution, capability = split_member(self.example)
        return f"{capability} of execution {execution}"

    @property
    def explain(self) -> str:
        """The command that says more of the example."""
        instance, execution, _ = split_member(self.example)
        return f"`tenure --instance {instance} explain {execution}`"

    @property
    def cancel(self) -> str:
        """The command that ends the example."""
        instance, execution, _ = split_member(self.example)
        return f"`tenure --instance {instance} cancel {execution}`"


@dataclass(slots=True, kw_only=True)
class Waiting:
    """Routes that wait for a slot, by what keeps them from one."""

    malformed: Tally = field(default_factory=Tally)
    unsupported: Tally = field(default_factory=Tally)
    #: Parked: some worker has the code, and none has what is needed.
    unfit: Tally = field(default_factory=Tally)
    #: Parked: no worker has the code.
    unloaded: Tally = field(default_factory=Tally)
    #: Parked, and no worker is there at all.
    unserved: Tally = field(default_factory=Tally)
    #: Whether all that there are have been looked at.
    is_whole: bool = True


def examine(store: Store, now: int) -> Iterator[Finding]:
    """Every finding about what is stored of live executions, and about what waits for slots.

    `now` is ms of the store's clock.
    """
    yield from judge_headers(survey_headers(store.client, store.keys))
    yield from judge_waiting(sort_out(store), now)


def sort_out(store: Store) -> Waiting:
    """Read the routes that wait, and compare them with the workers that are there."""
    survey, view = survey_routes(store.client, store.keys), store.placement.view()
    waiting = Waiting(is_whole=survey.is_whole)
    kept_by: dict[Wanted, Tally | None] = {}
    parked = set(survey.parked)
    for route, read in _read_all(store, [*survey.parked, *survey.others]):
        match _wanted(route, read):
            case NewerSchema() as error:
                waiting.unsupported.add(route, str(error))
            case Malformed() as error:
                waiting.malformed.add(route, str(error))
            case (record, wanted) if route in parked:
                if wanted not in kept_by:
                    kept_by[wanted] = _kept_by(waiting, wanted, view)
                if (tally := kept_by[wanted]) is not None:
                    tally.add(route, str(wanted.code), since=int(record["since"]))
            case _:
                pass  # it has its queue, or has left since
    return waiting


def _kept_by(waiting: Waiting, wanted: Wanted, view: RegistryView) -> Tally | None:
    """Among which a parked route counts; None for one that a scheduler places at once."""
    verdicts = [one for one in Placement.verdicts(view, wanted.needs, wanted.code) if one.queue.sessions]
    if not verdicts:
        return waiting.unserved
    if all(one.code_missing for one in verdicts):
        return waiting.unloaded
    return None if any(one.admits for one in verdicts) else waiting.unfit


def _wanted(route: str, read: Read) -> tuple[Record, Wanted] | Malformed | None:
    if isinstance(read, Malformed):
        return read
    record, recipe = read
    if record is None:
        return None
    _, execution, capability = split_member(route)
    try:
        return record, wanted_by(execution, capability, record, recipe=recipe)
    except Malformed as error:
        return error


def _read_all(store: Store, routes: Sequence[str]) -> Iterator[tuple[str, Read]]:
    named = [route for route in routes if route.count("/") > 1]
    for first in range(0, len(named), _PAGE):
        page = named[first : first + _PAGE]
        yield from zip(page, store.executions.routes([split_member(one) for one in page]), strict=True)


def judge_headers(survey: HeaderSurvey) -> Iterator[Finding]:
    """Whether live executions can be read at all."""
    if not survey.newer and not survey.damaged:
        yield Finding.ok("schema", "every live execution can be read")
    if survey.newer:
        yield Finding.warning(
            "schema",
            f"{_amount(len(survey.newer), 'live execution', survey.is_whole)} of a newer Tenure, such as "
            f"{survey.newer[0]}",
            "upgrade schedulers, workers and this command; until then nothing of an older version moves them",
        )
    if survey.damaged:
        yield Finding.warning(
            "headers",
            f"{_amount(len(survey.damaged), 'live execution', survey.is_whole)} whose header cannot be read, "
            f"such as {survey.damaged[0]}",
            "restore its key from a backup; its bytes are kept, and nothing acts on it until then",
        )


def judge_waiting(waiting: Waiting, now: int) -> Iterator[Finding]:
    """Whether what waits for a slot can get one."""
    yield from _demands(waiting)
    parked = False
    for tally, what, advice in (
        (
            waiting.unserved,
            "that wait, and no worker is running",
            "start one; {explain} says what is missing",
        ),
        (waiting.unfit, "that no worker fits", "{explain} says what is missing"),
    ):
        if tally.count:
            parked = True
            found = f"{_amount(tally.count, 'task', waiting.is_whole)} {what}, such as {tally.waits(now)}"
            yield Finding.warning("placement", found, advice.format(explain=tally.explain))
    if not parked:
        yield Finding.ok("placement", "no work waits for a worker that fits")
    unloaded = waiting.unloaded
    if unloaded.count:
        yield Finding.warning(
            "code",
            f"{_amount(unloaded.count, 'task', waiting.is_whole)} whose code no worker has loaded, such as "
            f"{unloaded.waits(now)} ({unloaded.detail})",
            f"start a worker with --import and its module; {unloaded.explain} says more",
        )
    else:
        yield Finding.ok("code", "no work waits for a worker with its code")


def _demands(waiting: Waiting) -> Iterator[Finding]:
    malformed, unsupported = waiting.malformed, waiting.unsupported
    if not malformed.count and not unsupported.count:
        yield Finding.ok("demands", "the needs of all that waits can be read")
    if malformed.count:
        yield Finding.warning(
            "demands",
            f"{_amount(malformed.count, 'route', waiting.is_whole)} of which nobody can read what is needed: "
            f"{malformed.detail}",
            f"nothing runs by it, and its bytes are kept; {malformed.explain} says more, {malformed.cancel} "
            "ends it",
        )
    if unsupported.count:
        yield Finding.warning(
            "newer demands",
            f"{_amount(unsupported.count, 'route', waiting.is_whole)} with needs that this version does not "
            f"know: {unsupported.detail}",
            "upgrade workers and schedulers to the version that wrote them",
        )


def _amount(count: int, noun: str, is_whole: bool) -> str:  # noqa: FBT001  # what it is, is its name
    return amount(count, noun) if is_whole else f"at least {amount(count, noun)}"
