"""Control signals of the engine. They are no errors and pass through `except Exception` in a recipe."""

from __future__ import annotations

from dataclasses import dataclass

from tenure.store.grants import Grant


@dataclass(frozen=True, slots=True)
class Next:
    """What a slot does after a piece of work: `grant`, or nothing if it has `asked` in vain, or ask."""

    grant: Grant | None = None
    asked: bool = False
    #: The work was given back for want of something that this slot does not have.
    handed_off: bool = False


class ControlSignal(BaseException):
    """Ends a replay. What a recipe that swallows one returns is discarded."""


class Leave(ControlSignal):
    """The recipe cannot go on here: what it needs is not there yet, or its frame is void."""

    def __init__(self, then: Next) -> None:
        super().__init__("the recipe is suspended")
        self.then = then


class ReplayOver(ControlSignal):
    """A read-only replay ends here, with `error` (G13)."""

    def __init__(self, error: BaseException) -> None:
        super().__init__(str(error))
        self.error = error


class Withdraw(ControlSignal):
    """Raised in a task by `ctx.check_cancelled()`: it was asked to stop, and does."""


class Stop(ControlSignal):
    """This slot must stop being a worker: it cannot know whether it still owns what it does (G16)."""

    def __init__(self, error: BaseException) -> None:
        super().__init__(str(error))
        self.error = error
