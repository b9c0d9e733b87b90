"""RQ's jobs, queues and workers as a dashboard shows them, and what its buttons do to a ticket.

A page shows whatever lies in RQ's keys, tickets or not, so nothing read here may end the page: what cannot be
read is shown as such, with its bytes left alone (G17, G18). Nothing pressed here matters to an execution: a
ticket only says that a queue has work, and lost ones are made up for (G10).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, Self

import msgpack
from rq.exceptions import InvalidJobOperation, NoSuchJobError
from rq.job import Job, JobStatus
from rq.queue import Queue
from rq.results import Result
from rq.utils import now, utcformat
from rq.worker import Worker

from tenure.transport import tickets
from tenure.transport.tickets import MsgpackSerializer

#: What the buttons and pages of a dashboard raise for a job that is gone, or not in the state they are for.
JobGone: Final = NoSuchJobError
NotPossible: Final = InvalidJobOperation

_SHAPE: Final = tickets.shape("")
#: What unpacking bytes that are no msgpack may raise.
_UNREADABLE: Final = (ValueError, msgpack.UnpackException)


class ShownJob(Job):
    """A job that can always be shown, named by its title: recipe, capability and attempt."""

    @classmethod
    def fetch(cls, id: str, connection: Any = None, serializer: Any = None) -> Self:  # noqa: A002, ARG003  # RQ's
        """The job of that id, read as msgpack whatever serializer is asked for.

        Raises:
            NoSuchJobError: it is gone, or no job can have that id.
        """
        try:
            job = cls(id, connection=connection, serializer=MsgpackSerializer)
        except ValueError as error:
            raise NoSuchJobError(str(error)) from error
        job.refresh()
        return job

    def refresh(self) -> None:
        """Read it. A key of another type is shown as a job that cannot be read."""
        if self.connection.type(self.key) in (b"hash", b"none"):
            super().refresh()  # type: ignore[no-untyped-call]
        else:
            self.description = "(cannot be read: its key is no hash)"

    def restore(self, raw_data: Mapping[Any, Any]) -> None:
        """Take what its hash holds, up to the first field that cannot be read."""
        try:
            super().restore(raw_data)
        except Exception as error:  # noqa: BLE001  # RQ names none for what a hand-written hash may hold
            self.description = f"(cannot be read: {type(error).__name__}: {error})"

    def _fetch_status(self) -> JobStatus:
        # RQ would read it once more: by then the job may be gone, and what is no status ends the page.
        return self._status

    @property
    def is_ticket(self) -> bool:
        """Whether it is one of ours."""
        return bool(self._data == _SHAPE.data)

    def get_call_string(self) -> str | None:
        """Its title. RQ would unpack the call, which is the same for all tickets."""
        return self.description

    def get_meta(self, refresh: bool = True) -> dict[Any, Any]:  # noqa: ARG002, FBT001, FBT002  # RQ's signature
        """Its metadata as last read, or RQ's stand-in for what cannot be."""
        return dict(self.meta)

    def latest_result(self, timeout: int = 0) -> Result | None:
        """Its result, None if there is none that can be read."""
        try:
            return super().latest_result(timeout)
        except _UNREADABLE:
            return None

    def return_value(self, refresh: bool = False) -> Any:  # noqa: ARG002, FBT001, FBT002  # RQ's signature
        """What it returned, None if that cannot be read."""
        result = self.latest_result()
        if result is not None and result.type == Result.Type.SUCCESSFUL:
            return result.return_value
        return self._result

    def requeue(self, at_front: bool = False) -> Job:  # noqa: FBT001, FBT002  # RQ's signature
        """Put it back on its queue, if RQ holds it for failed.

        Saving a job, RQ adds fields to it and compresses its call. Slots take nothing but exact tickets
        (G18), so a ticket is written anew, as the scripts write it.

        Raises:
            InvalidJobOperation: RQ does not hold it for failed.
        """
        if not self.is_ticket:
            return super().requeue(at_front)
        if not self.connection.zrem(self.failed_job_registry.key, self.id):
            raise InvalidJobOperation(f"{self.id} has not failed")
        route: Any = self.connection.hget(self.key, "route")
        written: dict[Any, Any] = {
            "data": _SHAPE.data,
            "origin": self.origin,
            "status": _SHAPE.status,
            "timeout": _SHAPE.timeout,
            "result_ttl": 0,
            "failure_ttl": _SHAPE.failure_ttl,
            "created_at": utcformat(self.created_at),
            "enqueued_at": utcformat(now()),
            "description": self.description or "",
            "route": route or b"",
        }
        with self.connection.pipeline() as pipe:
            pipe.delete(self.key, Result.get_key(self.id))
            pipe.hset(self.key, mapping=written)
            pipe.rpush(Queue.redis_queue_namespace_prefix + self.origin, self.id)
            pipe.execute()
        self.refresh()
        return self


class ShownQueue(Queue):
    """A queue of jobs that can always be shown."""

    job_class = ShownJob

    def get_job_ids(self, offset: int = 0, length: int = -1) -> list[str]:
        """Ids in order, also where somebody has written bytes that are no text."""
        if length == 0:
            return []
        last = offset + length - 1 if length > 0 else -1
        raw_ids: Any = self.connection.lrange(self.key, offset, last)
        return [raw.decode(errors="replace") for raw in raw_ids]

    def fetch_job(self, job_id: str) -> Job | None:
        """The job, None if it is gone. Looking at a queue changes nothing; RQ would take the id off here."""
        try:
            return ShownJob.fetch(job_id, connection=self.connection)
        except NoSuchJobError:
            return None

    def compact(self) -> None:
        """Take ids off whose jobs are gone.

        RQ renames the list and copies it back: an empty one is an error, and what it has not copied when the
        process ends is lost.
        """
        for job_id in self.get_job_ids():
            if not ShownJob.exists(job_id, self.connection):
                self.remove(job_id)


class ShownWorker(Worker):
    """A worker whose current job can always be shown."""

    job_class = ShownJob
    queue_class = ShownQueue

    @classmethod
    def all(cls, connection: Any = None, **_options: Any) -> list[Any]:  # type: ignore[override]  # as it is called
        """All workers there are."""
        return super().all(
            connection=connection, job_class=ShownJob, queue_class=ShownQueue, serializer=MsgpackSerializer
        )

    def get_current_job(self) -> Job | None:
        """What it runs, None if that has ended meanwhile or was deleted."""
        try:
            return super().get_current_job()
        except NoSuchJobError:
            return None


def requeue_job(job_id: str, connection: Any) -> Job:
    """What the Requeue buttons call.

    Raises:
        NoSuchJobError: it is gone.
        InvalidJobOperation: RQ does not hold it for failed.
    """
    return ShownJob.fetch(job_id, connection=connection).requeue()
