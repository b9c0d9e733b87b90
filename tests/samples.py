"""Tasks and recipes that tests run: a chain, a map, a failure, a `once` task, and needs nobody meets.

Command-line tests load it with `--import tests.samples`; tests in process take `DEFINITIONS`.
"""

from __future__ import annotations

from typing import Final

from tenure import Needs, Retry, Run, TaskContext, recipe, task
from tenure.engine.definitions import Definitions
from tenure.engine.signals import Stop
from tenure.errors import Unconfirmed

BIG: Final = Needs(memory="64Gi")


@task
def outline(title: str, chapters: int) -> list[str]:
    return [f"{title} {n}" for n in range(1, chapters + 1)]


@task
def draft(chapter: str, ctx: TaskContext) -> str:
    ctx.progress(1, 2, "half way")
    ctx.log(f"drafted {chapter}")
    return chapter.upper()


@task
def bind(drafts: list[str]) -> str:
    return " | ".join(drafts)


@task
def square(number: int, *, refuse: int = -1) -> int:
    if number == refuse:
        raise ValueError(f"{number} is refused")
    return number * number


@task
def refuse(text: str) -> str:
    raise ValueError(text)


@task(retry=Retry(attempts=3, initial="1ms"))
def stumble(times: int, ctx: TaskContext) -> int:
    if ctx.attempt <= times:
        raise ConnectionError(f"attempt {ctx.attempt} stumbled")
    return ctx.attempt


@task(effects="once")
def charge(amount: int, *, vanish: bool = False) -> str:
    if vanish:
        # The engine stops at once, as if the slot had died here: nothing of this attempt is recorded.
        raise Stop(Unconfirmed("the slot vanished"))
    return f"charged {amount}"


@task(needs=BIG)
def crunch(number: int) -> int:
    return number + 1


@recipe
def publish(run: Run, title: str, chapters: int = 2) -> str:
    """A chain: each task needs the result of the one before."""
    return run.call(bind, [run.call(draft, name) for name in run.call(outline, title, chapters)])


@recipe
def squares(run: Run, count: int, refuse: int = -1) -> int:
    """A map and its sum."""
    return sum(run.map(square, range(count), refuse=refuse))


@recipe
def failing(run: Run, text: str = "no paper left") -> str:
    """Its only task fails for good."""
    return run.call(refuse, text)


@recipe
def stumbling(run: Run, times: int = 2) -> int:
    """Its task succeeds at the attempt after `times`, which may be at most two."""
    return run.call(stumble, times)


@recipe
def billing(run: Run, amount: int, vanish: bool = False) -> str:  # noqa: FBT001, FBT002  # input of a recipe
    """A task that is never run twice on a guess; with `vanish` nobody knows how it ended."""
    return run.call(charge, amount, vanish=vanish)


@recipe
def heavy(run: Run, number: int = 1) -> int:
    """Its task needs more memory than slots without an allocation have."""
    return run.call(crunch, number)


@recipe(needs=BIG)
def heavy_recipe(run: Run) -> int:
    """The recipe itself needs that much."""
    return run.call(square, 2)


@recipe(name="greeting", version="1")
def greeting_1(run: Run, name: str = "you") -> str:
    """The older of two versions."""
    return run.call(bind, ["hi", name])


@recipe(name="greeting", version="2")
def greeting_2(run: Run, name: str = "you") -> str:
    """The newer of two versions."""
    return run.call(bind, ["hello", name])


DEFINITIONS: Final = Definitions.of(
    [
        *(outline, draft, bind, square, refuse, stumble, charge, crunch),
        *(publish, squares, failing, stumbling, billing, heavy, heavy_recipe, greeting_1, greeting_2),
    ]
)
