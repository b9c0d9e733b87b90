"""Whether a failed attempt is followed by another, and after how long.

The verdict is a function of the *recorded* attempt number: no worker sleeps on a retry, and a process that
never saw the earlier attempts decides the same. tenacity's objects do the deciding; its loop is not used.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta
from functools import cached_property
from typing import TYPE_CHECKING, Final, TypeAlias

import tenacity

from tenure.errors import InvalidInput
from tenure.model.duration import Duration, parse_duration

if TYPE_CHECKING:
    from tenacity.retry import retry_base
    from tenacity.stop import stop_base
    from tenacity.wait import wait_base

ErrorTypes: TypeAlias = type[BaseException] | tuple[type[BaseException], ...]


@dataclass(frozen=True, slots=True)
class RetryIn:
    """Try again, this long after the failure."""

    delay: timedelta


@dataclass(frozen=True, slots=True)
class GiveUp:
    """The failure is final. `reason` is for people."""

    reason: str


Verdict: TypeAlias = RetryIn | GiveUp


@dataclass(frozen=True)
class Retry:
    """`Retry(attempts=5, initial="1s", maximum="1m")`: waits of 1 s, 2 s, 4 s, ... up to a minute.

    `attempts` counts the first one too; None is without end. The wait after attempt n is
    `initial * multiplier ** (n - 1)`, at most `maximum`, and up to `jitter` more at random. An error is
    retried if it is one of `retry_on` and none of `give_up_on`.

    Raises:
        InvalidInput: a number out of range, or something that is no exception type.
        InvalidDuration: a duration that cannot be read.
    """

    attempts: int | None = 3
    initial: Duration = "1s"
    maximum: Duration = "1m"
    multiplier: float = 2
    jitter: Duration = "0s"
    retry_on: ErrorTypes = (Exception,)
    give_up_on: ErrorTypes = ()

    def __post_init__(self) -> None:
        if self.attempts is not None and (isinstance(self.attempts, bool) or self.attempts < 1):
            raise InvalidInput(f"Retry(attempts={self.attempts!r}): give 1 or more, or None for no limit")
        if not self.multiplier >= 1:
            raise InvalidInput(f"Retry(multiplier={self.multiplier!r}): give 1 or more")
        for name, kinds in (("retry_on", self.retry_on), ("give_up_on", self.give_up_on)):
            for kind in kinds if isinstance(kinds, tuple) else (kinds,):
                if not _is_exception_type(kind):
                    raise InvalidInput(f"Retry({name}=...): {kind!r} is no exception type")
        # Durations are read now, so that a wrong one is an error where it was written.
        _ = self.wait

    @cached_property
    def wait(self) -> wait_base:
        """How long to wait, as tenacity's object."""
        wait: wait_base = tenacity.wait_exponential(
            multiplier=parse_duration(self.initial, name="Retry(initial)").total_seconds(),
            max=parse_duration(self.maximum, name="Retry(maximum)").total_seconds(),
            exp_base=self.multiplier,
        )
        jitter = parse_duration(self.jitter, name="Retry(jitter)").total_seconds()
        return wait + tenacity.wait_random(0, jitter) if jitter else wait

    @cached_property
    def stop(self) -> stop_base:
        """When to give up, as tenacity's object."""
        return tenacity.stop_never if self.attempts is None else tenacity.stop_after_attempt(self.attempts)

    @cached_property
    def retry(self) -> retry_base:
        """Which errors to retry, as tenacity's object."""
        return tenacity.retry_all(
            tenacity.retry_if_exception_type(self.retry_on),
            tenacity.retry_if_not_exception_type(self.give_up_on),
        )

    def verdict(self, attempt: int, error: BaseException) -> Verdict:
        """What follows when attempt number `attempt`, counted from 1, has ended with `error`."""
        state = tenacity.RetryCallState(_NO_LOOP, None, (), {})
        state.attempt_number = attempt
        state.set_exception((type(error), error, error.__traceback__))
        if not self.retry(state):
            return GiveUp(f"{type(error).__name__} is not retried")
        if self.stop(state):
            return GiveUp(f"attempt {attempt} of {self.attempts} was the last")
        return RetryIn(timedelta(seconds=self.wait(state)))


def _is_exception_type(kind: object) -> bool:
    return isinstance(kind, type) and issubclass(kind, BaseException)


_NO_LOOP: Final = tenacity.Retrying()

#: What a task has that was given no `retry=`.
ONE_ATTEMPT: Final = Retry(attempts=1)
