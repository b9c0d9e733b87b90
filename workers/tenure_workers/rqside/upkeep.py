"""What an agent keeps up on RQ's side for its slots: signs of life, wake-ups, and the graves of the dead.

All of it is display, except the wake-up of an idle slot, which its 5-second wait replaces.
"""

from __future__ import annotations

import logging
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Any, Final

import redis
from redis.client import Pipeline
from rq.executions import WORKER_EXECUTIONS_KEY_TEMPLATE, Execution, ExecutionRegistry
from rq.intermediate_queue import IntermediateQueue
from rq.job import Job
from rq.registry import StartedJobRegistry
from rq.utils import current_timestamp, now, utcformat
from rq.worker_registration import REDIS_WORKER_KEYS, WORKERS_BY_QUEUE_KEY, clean_worker_registry

from tenure.transport.tickets import MsgpackSerializer
from tenure_workers.rqside.tickets import TICKET_DATA, NoDeathPenalty, TicketJob, TicketQueue
from tenure_workers.rqside.worker import KEPT_SECONDS, SlotWorker

log = logging.getLogger(__name__)

# Registries of executions outlive their entries by a minute in RQ as well.
_REGISTRY_SECONDS: Final = KEPT_SECONDS + 60


@dataclass(frozen=True, slots=True)
class LiveWorker:
    """A slot as RQ knows it. `entry` is its started job, as RQ's registry names it, or empty."""

    name: str
    entry: str


def renew_rq_entries(client: redis.Redis, queue: str, workers: Sequence[LiveWorker]) -> None:
    """Say that these workers and their jobs live, in one pipeline, so that RQ's sweeps leave them alone.

    Raises:
        redis.RedisError: the server does not answer.
    """
    if not workers:
        return
    beat = utcformat(now())
    with client.pipeline(transaction=False) as pipe:
        for worker in workers:
            pipe.hset(_worker_key(worker.name), "last_heartbeat", beat)
            pipe.expire(_worker_key(worker.name), KEPT_SECONDS)
        for worker in workers:
            if worker.entry:
                _renew_entry(pipe, client, queue, worker)
        replies = pipe.execute(raise_on_error=False)
    # Where the key had expired there is now one without a name or birth; the slot announces itself again.
    gone = [w for w, added in zip(workers, replies[: 2 * len(workers) : 2], strict=True) if added == 1]
    if gone:
        client.delete(*(_worker_key(worker.name) for worker in gone))


def _renew_entry(pipe: Pipeline, client: redis.Redis, queue: str, worker: LiveWorker) -> None:
    execution = Execution.from_composite_key(worker.entry, connection=client)
    until = current_timestamp() + KEPT_SECONDS
    pipe.zadd(_started_key(queue), {worker.entry: until}, xx=True)
    pipe.expire(execution.key, KEPT_SECONDS)
    pipe.expire(ExecutionRegistry.key_template.format(execution.job_id), _REGISTRY_SECONDS)
    pipe.expire(WORKER_EXECUTIONS_KEY_TEMPLATE.format(worker.name), _REGISTRY_SECONDS)


def forget_worker(client: redis.Redis, queue: str, name: str) -> None:
    """Remove a dead worker and its started jobs from what RQ shows.

    Raises:
        redis.RedisError: the server does not answer; what is left expires, or is swept.
    """
    entries_key = WORKER_EXECUTIONS_KEY_TEMPLATE.format(name)
    members: Any = client.smembers(entries_key)
    entries = [raw.decode(errors="replace") for raw in members]
    with client.pipeline(transaction=False) as pipe:
        for entry in entries:
            _bury_entry(pipe, client, queue, entry)
        pipe.srem(REDIS_WORKER_KEYS, _worker_key(name))
        pipe.srem(WORKERS_BY_QUEUE_KEY % queue, _worker_key(name))
        pipe.delete(_worker_key(name), entries_key)
        pipe.execute(raise_on_error=False)


def unblock_workers(client: redis.Redis, names: Collection[str]) -> int:
    """Wake the workers that wait for a ticket; returns how many were waiting. Repeat until they have left.

    Raises:
        redis.RedisError: the server does not answer, or does not allow this to its users.
    """
    waiting = [
        int(row["id"]) for row in client.client_list() if row.get("name") in names and "b" in row["flags"]
    ]
    return sum(bool(client.client_unblock(client_id)) for client_id in waiting)


class Leftovers:
    """Sweeps what slots and agents that died together have left of RQ's on one queue."""

    def __init__(self, client: redis.Redis, queue: str) -> None:
        self._client = client
        self._queue = TicketQueue(
            queue,
            connection=client,
            job_class=TicketJob,
            serializer=MsgpackSerializer,
            death_penalty_class=NoDeathPenalty,
        )
        self._between: set[bytes] = set()

    def run_once(self) -> int:
        """Sweep once; returns how many tickets went. Call about once a minute.

        A slot needs a moment from popping a ticket to registering it. What lies between at two sweeps has
        lost its slot, and its wake-up is made up for by the scheduler's top-up.

        Raises:
            redis.RedisError: the server does not answer.
        """
        lapsed: Any = self._client.zrangebyscore(_started_key(self._queue.name), 0, current_timestamp())
        between_key = IntermediateQueue.get_intermediate_queue_key(self._queue.key)
        between: set[Any] = set(self._client.lrange(between_key, 0, -1))
        stuck = between & self._between
        self._between = between - stuck
        with self._client.pipeline(transaction=False) as pipe:
            for entry in lapsed:
                _bury_entry(pipe, self._client, self._queue.name, entry.decode(errors="replace"))
            for raw_id in stuck:
                pipe.lrem(between_key, 0, raw_id)
            pipe.execute(raise_on_error=False)
        for raw_id in stuck:
            self._delete_ticket(raw_id)
        clean_worker_registry(self._queue)
        if lapsed or stuck:
            log.info("swept %d RQ jobs of lost slots off %s", len(lapsed) + len(stuck), self._queue.name)
        return len(lapsed) + len(stuck)

    def _delete_ticket(self, raw_id: bytes) -> None:
        key = Job.redis_job_namespace_prefix.encode() + raw_id
        try:
            is_ticket = self._client.hget(key, "data") == TICKET_DATA
        except redis.ResponseError:  # no hash
            return
        if is_ticket:  # anything else keeps its bytes
            self._client.delete(key)


def _bury_entry(pipe: Pipeline, client: redis.Redis, queue: str, entry: str) -> None:
    pipe.zrem(_started_key(queue), entry)
    if entry.count(":") == 1:  # else somebody else's; RQ's keys cannot be told from it
        execution = Execution.from_composite_key(entry, connection=client)
        pipe.delete(
            execution.key,
            ExecutionRegistry.key_template.format(execution.job_id),
            Job.key_for(execution.job_id),
        )


def _worker_key(name: str) -> str:
    return SlotWorker.redis_worker_namespace_prefix + name


def _started_key(queue: str) -> str:
    return StartedJobRegistry.key_template.format(queue)
