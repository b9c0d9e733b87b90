"""The constant parts of the RQ jobs that Tenure writes."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class TicketShape:
    """What every ticket of a namespace has in common.

    `prefix` begins its id; `data` is RQ's packed call; `timeout` and `failure_ttl` are seconds.
    """

    prefix: str
    data: bytes
    status: str
    timeout: int
    failure_ttl: int
