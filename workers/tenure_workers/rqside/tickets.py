"""What a slot takes off RQ's list: tickets, and nothing else.

RQ would import whatever name a job carries, call its callbacks and webhooks, and end the worker over a job it
cannot read. Here a job is compared with the one thing that Tenure writes before RQ looks at it. What is not
exactly a ticket is put aside: its id goes to a capped list, its bytes stay as they are (G17, G18).
"""

# ruff: noqa: ARG003, PLR0917  # the signatures are RQ's

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final

import redis
import redis.exceptions as failures
from rq.intermediate_queue import IntermediateQueue
from rq.job import Job, validate_job_id
from rq.queue import Queue
from rq.serializers import Serializer
from rq.timeouts import BaseDeathPenalty

from tenure.transport.tickets import ENTRY, RQ_PREFIX, MsgpackSerializer

log = logging.getLogger(__name__)

#: The bytes every ticket carries as its call: one fixed name, no arguments.
TICKET_DATA: Final = MsgpackSerializer.dumps([ENTRY, None, [], {}])
#: Fields of RQ jobs that would begin a second life cycle, carry code or unbounded bytes. Tickets have none.
FOREIGN_FIELDS: Final = frozenset(
    {
        b"meta",
        b"result",
        b"exc_info",
        b"success_callback_name",
        b"failure_callback_name",
        b"stopped_callback_name",
        b"webhooks",
        b"dependency_id",
        b"dependency_ids",
        b"group_id",
        b"retries_left",
        b"retry_intervals",
        b"repeats_left",
        b"repeat_intervals",
        b"rate_limit_key",
    }
)
_POISON_KEPT: Final = 1000


def poison_key(queue: str) -> str:
    """The list of ids that were put aside, newest first."""
    return f"{RQ_PREFIX}poison:{queue}"


class NoDeathPenalty(BaseDeathPenalty):
    """No alarm and no exception out of nowhere: the agent watches the time, and stops the process."""

    def setup_death_penalty(self) -> None:
        """Set nothing up."""

    def cancel_death_penalty(self) -> None:
        """Cancel nothing."""


class TicketJob(Job):
    """A job whose call, callbacks and webhooks are fixed, whatever its hash says."""

    @property
    def func(self) -> Callable[[], None]:
        """What RQ would call: nothing. A slot gives the ticket's id to its driver instead."""
        return _nothing

    @property
    def instance(self) -> None:
        """No object comes out of a hash."""
        return

    @instance.setter
    def instance(self, value: object) -> None:
        """Accept and forget, as RQ's constructor writes it."""

    @property
    def success_callback(self) -> None:
        """None is called."""
        return

    @property
    def failure_callback(self) -> None:
        """None is called."""
        return

    @property
    def stopped_callback(self) -> None:
        """None is called."""
        return

    def send_webhooks(self, status: object, *, exc_string: str | None = None) -> None:
        """Send none."""


def _nothing() -> None:
    """What a ticket calls."""


class TicketQueue(Queue):
    """The one queue of a slot."""

    job_class = TicketJob

    @classmethod
    def dequeue_any(
        cls,
        queues: Iterable[Queue],
        timeout: int | None,
        connection: redis.Redis,
        job_class: type[Job] | None = None,
        serializer: Serializer | str | None = None,
        death_penalty_class: type[BaseDeathPenalty] | None = None,
    ) -> tuple[Job, Queue] | None:
        """The next ticket, put on RQ's intermediate list.

        Raises:
            DequeueTimeout: none came in time, or the connection was unblocked.
            redis.RedisError: the server does not answer, or refuses.
        """
        (queue,) = queues
        while True:
            popped: Any = cls.lmove(connection, queue.key, timeout)
            if popped is None:
                return None
            ticket = read_ticket(queue, popped[1])
            if ticket is not None:
                return ticket, queue


def read_ticket(queue: Queue, raw_id: bytes) -> TicketJob | None:
    """The ticket of that id; None if it is gone or was put aside, and then off the intermediate list."""
    try:
        return _restored(queue, raw_id)
    except _NoTicket as refusal:
        _put_aside(queue, raw_id, str(refusal))
        return None


class _NoTicket(ValueError):
    """Says why something on the list is no ticket."""


def _restored(queue: Queue, raw_id: bytes) -> TicketJob | None:
    try:
        ticket_id = raw_id.decode("ascii")
        validate_job_id(ticket_id)
        fields: Any = queue.connection.hgetall(Job.key_for(ticket_id))
    except ValueError as error:
        raise _NoTicket(str(error)) from error
    except failures.ResponseError as error:
        if not str(error).startswith("WRONGTYPE"):
            raise
        raise _NoTicket("its key is no hash") from error
    if not fields:  # deleted by an operator, or spent by a claim
        _take_off(queue.connection, queue, raw_id)
        return None
    _check_fields(fields, queue.name)
    ticket = TicketJob(ticket_id, connection=queue.connection, serializer=MsgpackSerializer)
    try:
        ticket.restore(fields)
    except Exception as error:  # RQ names no errors for what a hand-written hash may hold
        raise _NoTicket(f"{type(error).__name__}: {error}") from error
    return ticket


def _check_fields(fields: Mapping[bytes, bytes], queue: str) -> None:
    """Raise if a job hash is no ticket. Looks at nothing but bytes."""
    if fields.get(b"data") != TICKET_DATA:
        raise _NoTicket("it calls something else than a ticket does")
    if fields.get(b"origin") != queue.encode():
        raise _NoTicket("it is from another queue")
    foreign = sorted(FOREIGN_FIELDS & fields.keys())
    if foreign:
        raise _NoTicket(f"it has {foreign[0].decode()}, which no ticket has")


def _take_off(client: Any, queue: Queue, raw_id: bytes) -> None:
    client.lrem(IntermediateQueue.get_intermediate_queue_key(queue.key), 1, raw_id)


def _put_aside(queue: Queue, raw_id: bytes, reason: str) -> None:
    log.warning(
        "put aside RQ job %r of queue %s: %s; its bytes are kept, its id is in %s",
        raw_id,
        queue.name,
        reason,
        poison_key(queue.name),
    )
    with queue.connection.pipeline(transaction=False) as pipe:
        _take_off(pipe, queue, raw_id)
        pipe.lpush(poison_key(queue.name), raw_id)
        pipe.ltrim(poison_key(queue.name), 0, _POISON_KEPT - 1)
        pipe.execute(raise_on_error=False)
