"""Starting executions and reading what is stored about them, by parts."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import redis

from tenure.errors import Malformed
from tenure.model.status import ExecutionStatus, RouteIndex
from tenure.store.answers import CancelAnswer, StartAnswer
from tenure.store.connection import reaching
from tenure.store.keys import RECIPE, SCHEMA, Keys, route_member
from tenure.store.scripts import Scripts
from tenure.store.stored import (
    Record,
    StoredExecution,
    read_stored,
    unpack,
    unpack_records,
    unreadable_header,
)

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class NewExecution:
    """All that `start.lua` stores."""

    instance: str
    execution: str
    nonce: str
    recipe: str
    version: str
    input_hash: str
    params: bytes
    correlation: str
    band: int
    #: As `Demand` publishes it; None if it is not known here what the recipe declares.
    demand: str | None
    job_needs: str
    candidates: Sequence[tuple[str, int]]
    registry: int
    crash_limit: int
    #: The name of its demand and an event, if by that registry nobody meets it.
    unmet: tuple[str, str] | None = None
    #: ms before it may begin, or ms of the store's clock at which it may
    delay: int | None = None
    at: int | None = None
    #: ms after which it fails
    deadline: int | None = None


class Executions:
    """The executions of one namespace."""

    def __init__(self, client: redis.Redis, scripts: Scripts, keys: Keys, *, events_kept: int) -> None:
        # redis-py types every reply for both decoding modes at once; ours is always bytes.
        self._client: Any = client
        self._scripts = scripts
        self._keys = keys
        self._cap = events_kept

    def start(self, new: NewExecution) -> StartAnswer:
        """Create an execution with its recipe route, or say why not."""
        return StartAnswer(self._scripts.call("start", self._start_arguments(new))["answer"])

    def start_many(self, new: Sequence[NewExecution]) -> list[StartAnswer]:
        """As `start` does, each for itself, in few round trips; answers in order."""
        if len(new) == 1:
            return [self.start(new[0])]
        replies = self._scripts.call_many("start", [self._start_arguments(one) for one in new])
        return [StartAnswer(reply["answer"]) for reply in replies]

    def _start_arguments(self, new: NewExecution) -> dict[str, Any]:
        header = {
            "instance": new.instance,
            "id": new.execution,
            "recipe": new.recipe,
            "version": new.version,
            "input_hash": new.input_hash,
            "correlation": new.correlation,
            "band": new.band,
            "job_needs": new.job_needs,
            "schema": SCHEMA,
        }
        return {
            "instance": new.instance,
            "execution": new.execution,
            "nonce": new.nonce,
            "header": [part for item in header.items() for part in item],
            "input_hash": new.input_hash,
            "recipe": new.recipe,
            "band": new.band,
            "params": new.params,
            "demand": new.demand,
            "candidates": [list(c) for c in new.candidates],
            "crash_limit": new.crash_limit,
            "registry": new.registry,
            "unmet": None if new.unmet is None else list(new.unmet),
            "delay": new.delay,
            "at": new.at,
            "deadline": new.deadline,
            "cap": self._cap,
        }

    def cancel(self, instance: str, execution: str, *, reason: str, nonce: str) -> CancelAnswer:
        """Record the intent to cancel, and act on it as far as that can be done now.

        Raises:
            Malformed: what is stored cannot be read, or is of another schema; nothing was changed.
        """
        reply = self._scripts.call(
            "cancel",
            {
                "instance": instance,
                "execution": execution,
                "reason": reason,
                "nonce": nonce,
                "cap": self._cap,
            },
        )
        answer = CancelAnswer(reply["answer"])
        if answer is CancelAnswer.UNREADABLE_HEADER:
            raise unreadable_header(f"execution {execution}", reply.get("schema"))
        return answer

    @reaching()
    def get(self, instance: str, execution: str) -> StoredExecution | None:
        """Everything about one execution but its payloads.

        Raises:
            Malformed: what is stored cannot be read; the bytes are kept.
        """
        with self._client.pipeline(transaction=True) as pipe:
            pipe.hgetall(self._keys("execution", instance, execution))
            pipe.hgetall(self._keys("records", instance, execution))
            pipe.lrange(self._keys("attempts", instance, execution), 0, -1)
            header, records, attempts = pipe.execute()
        if not header:
            return None
        stored = read_stored(instance, execution, header, records, attempts)
        return replace(stored, lapsed=self._lapsed(stored))

    @reaching()
    def status(self, instance: str, execution: str) -> ExecutionStatus | None:
        """The status alone; None if there is no such execution."""
        raw = self._client.hget(self._keys("execution", instance, execution), "status")
        return None if raw is None else ExecutionStatus(raw.decode())

    @reaching()
    def headers(self, instance: str, ids: Sequence[str]) -> list[StoredExecution]:
        """Headers with the records of what is in flight only, in the order asked for.

        Those that are gone are left out; those that cannot be read too, with a warning that names them.
        """
        with self._client.pipeline(transaction=False) as pipe:
            for execution in ids:
                pipe.hgetall(self._keys("execution", instance, execution))
                pipe.smembers(self._keys("in_flight", instance, execution))
            rows = pipe.execute(raise_on_error=False)
        found = []
        for n, execution in enumerate(ids):
            header, flight = rows[2 * n : 2 * n + 2]
            if isinstance(header, Exception) or isinstance(flight, Exception):
                log.warning(
                    "left out of the list: execution %s: its keys are of another type",
                    execution,
                    extra={"execution": execution},
                )
            elif header:
                found.append((execution, header, sorted(flight)))
        with self._client.pipeline(transaction=False) as pipe:
            for execution, _, flight in found:
                pipe.hmget(self._keys("records", instance, execution), flight or [RECIPE])
            records = pipe.execute(raise_on_error=False)
        read: list[StoredExecution] = []
        for (execution, header, flight), raw in zip(found, records, strict=True):
            if isinstance(raw, Exception):
                log.warning("left out of the list: execution %s: %s", execution, raw)
                continue
            in_flight = {name: one for name, one in zip(flight, raw, strict=False) if one is not None}
            try:
                read.append(read_stored(instance, execution, header, in_flight, []))
            except Malformed as error:
                log.warning("left out of the list: %s", error, extra={"execution": execution})
        return read

    def _lapsed(self, stored: StoredExecution) -> frozenset[str]:
        leased = [name for name, r in stored.records.items() if r.get("where") == RouteIndex.LEASED]
        if not leased:
            return frozenset()
        with self._client.pipeline(transaction=False) as pipe:
            pipe.time()
            for name in leased:
                pipe.zscore(self._keys("leased"), route_member(stored.instance, stored.id, name))
            (seconds, micros), *deadlines = pipe.execute()
        now = seconds * 1000 + micros // 1000
        return frozenset(
            name for name, end in zip(leased, deadlines, strict=True) if end is not None and end < now
        )

    @reaching()
    def replay_parts(self, instance: str, execution: str) -> tuple[dict[str, Record], dict[str, bytes]]:
        """What a replay needs: every record, and every result by capability.

        Records are read before results, so a record that says completed has its result.
        """
        with self._client.pipeline(transaction=False) as pipe:
            pipe.hgetall(self._keys("records", instance, execution))
            pipe.hgetall(self._keys("results", instance, execution))
            records, results = pipe.execute()
        where = f"execution {execution}"
        return unpack_records(records, where), {name.decode(): raw for name, raw in results.items()}

    @reaching()
    def params(self, instance: str, execution: str, capabilities: Sequence[str]) -> dict[str, bytes]:
        """The recorded parameters of those capabilities that have any. Raises `Malformed`."""
        try:
            raws = self._client.hmget(self._keys("params", instance, execution), capabilities)
        except redis.ResponseError as error:
            raise Malformed(f"execution {execution}: its parameters cannot be read ({error})") from error
        return {name: raw for name, raw in zip(capabilities, raws, strict=True) if raw is not None}

    @reaching()
    def result(self, instance: str, execution: str, capability: str = RECIPE) -> bytes | None:
        """The recorded result of a capability, or of the whole execution."""
        raw: bytes | None = self._client.hget(self._keys("results", instance, execution), capability)
        return raw

    @reaching()
    def routes(self, members: Sequence[tuple[str, str, str]]) -> list[tuple[Record | None, str] | Malformed]:
        """The record of each (instance, execution, capability), with the recipe's `name@version`.

        What cannot be read is a value and not an exception here, so that one route never stops a page of
        them.
        """
        with self._client.pipeline(transaction=False) as pipe:
            for instance, execution, capability in members:
                pipe.hget(self._keys("records", instance, execution), capability)
                pipe.hmget(self._keys("execution", instance, execution), "recipe", "version")
            rows = pipe.execute(raise_on_error=False)
        found: list[tuple[Record | None, str] | Malformed] = []
        for n, (_, execution, _) in enumerate(members):
            try:
                found.append(_route(execution, *rows[2 * n : 2 * n + 2]))
            except Malformed as error:
                found.append(error)
        return found


def _route(execution: str, raw: Any, code: Any) -> tuple[Record | None, str]:
    for failure in (raw, code):
        if isinstance(failure, redis.ResponseError):
            raise Malformed(f"execution {execution}: it cannot be read ({failure}); the bytes are kept")
        if isinstance(failure, Exception):
            raise failure
    recipe, version = code
    if raw is None or recipe is None:
        return None, ""
    return unpack(raw, f"execution {execution}"), f"{recipe.decode()}@{version.decode()}"
