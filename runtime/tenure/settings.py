"""The few numbers that shape behaviour, with their defaults, in one value.

Nothing reads the environment at import: `Settings.from_environment` is called by the wiring.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields, replace
from datetime import timedelta

from tenure.errors import InvalidInput

PREFIX = "TENURE_"


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """Durations are `timedelta`; sizes are bytes."""

    #: How long a lease, a session and a claim stay valid without renewal.
    lease: timedelta = timedelta(seconds=15)
    #: How often an agent renews all leases of its slots and its session.
    renewal: timedelta = timedelta(seconds=5)
    #: How long the leading scheduler's lease lasts.
    leadership: timedelta = timedelta(seconds=5)
    #: How often the leading scheduler makes its rounds when nothing nudges it.
    tick: timedelta = timedelta(seconds=1)
    #: How long a request whose reply was lost is resent before it is unconfirmed (G16). An outage of a minute
    #: costs a busy slot nothing; a caller that cannot wait so long gives a shorter one.
    resend: timedelta = timedelta(seconds=75)
    #: How long a draining worker may finish what it runs.
    drain: timedelta = timedelta(seconds=30)
    #: How long a task that was asked to stop may go on.
    grace: timedelta = timedelta(seconds=10)
    #: How long a terminal execution is kept.
    retention: timedelta = timedelta(days=7)
    #: How long a provisioner may take over one event before it is stopped, and told again later.
    hook: timedelta = timedelta(seconds=30)
    #: The longest a slot runs one chain, or one RQ job, before it gives way.
    chain: timedelta = timedelta(minutes=1)
    #: Slots a capability or recipe may kill before it fails with its causes of death.
    crashes: int = 3
    #: The largest encoded parameter or result.
    payload: int = 1024 * 1024
    #: Task routes of one map that are open at a time.
    window: int = 200
    #: Events kept for one execution.
    events: int = 5000

    @classmethod
    def from_environment(cls, environment: Mapping[str, str]) -> Settings:
        """Read `TENURE_LEASE=2`, `TENURE_RENEWAL=0.5`, ... : seconds, or a count.

        Raises:
            InvalidInput: a value that is not a positive number, or a renewal not below the lease.
        """
        changes: dict[str, object] = {}
        for field in fields(cls):
            text = environment.get(PREFIX + field.name.upper())
            if text is None:
                continue
            try:
                number = float(text)
            except ValueError:
                number = 0.0
            if number <= 0:
                raise InvalidInput(f"{PREFIX}{field.name.upper()}={text!r}: give a number above 0")
            is_duration = isinstance(getattr(cls(), field.name), timedelta)
            changes[field.name] = timedelta(seconds=number) if is_duration else int(number)
        settings = replace(cls(), **changes)  # type: ignore[arg-type]  # fields are checked above
        if settings.renewal >= settings.lease:
            raise InvalidInput("TENURE_RENEWAL must be shorter than TENURE_LEASE, or every lease lapses")
        return settings

    def to_environment(self) -> dict[str, str]:
        """The variables that give a child process the same settings."""
        return {PREFIX + f.name.upper(): str(_number(getattr(self, f.name))) for f in fields(self)}


def _number(value: timedelta | int) -> float | int:
    return value.total_seconds() if isinstance(value, timedelta) else value
