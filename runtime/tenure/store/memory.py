"""Executions kept in this process, by the rules of the store in Redis: for tests and for trying things."""

from __future__ import annotations

import threading
from collections.abc import Iterable

from tenure.errors import ExecutionExists, ExecutionNotFound, LeaseLost
from tenure.model.execution import Execution
from tenure.model.marshalling import marshal_execution, unmarshal_execution
from tenure.model.names import check_execution_id
from tenure.model.succession import successor, taken

Found = list[Execution]


def owned_by(executions: Iterable[Execution], instance_id: str) -> Found:
    """Those that belong to `instance_id`: the one filter of both stores, so that they cannot disagree."""
    return [execution for execution in executions if execution.instance_id == instance_id]


def deleted(execution_id: str) -> str:
    """What to say of an id that has a tombstone."""
    return f"execution {execution_id} was deleted, and its id is not used again yet"


def duplicate(execution_id: str) -> ExecutionExists:
    """The error for adding an id twice."""
    return ExecutionExists(
        f"execution {execution_id} is stored already; nothing was changed. Save it instead"
    )


class MemoryStore:
    """As `ExecutionStore`, but that ids are unique over all instances and that nothing is ever leased.

    What it is given is copied, and so is what it hands out: only what is saved is seen. Threads may share it.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._kept: dict[str, bytes] = {}
        self._tombstones: set[str] = set()

    def add(self, execution: Execution) -> None:
        """Insert an execution. Raises `ExecutionExists` if its id is taken, or was, by one since deleted."""
        data = marshal_execution(execution)
        with self._lock:
            if execution.id in self._tombstones:
                raise ExecutionExists(deleted(execution.id))
            if execution.id in self._kept:
                raise duplicate(execution.id)
            self._kept[execution.id] = data

    def save(self, execution: Execution, *, token: int | None = None) -> None:
        """Insert an execution, or bring what is stored forward to what it has become.

        Raises:
            LeaseLost: a token was given, and nothing is leased here.
            IllegalTransition: what is stored has moved on, or something recorded would be altered.
            ExecutionExists: the id is that of another execution.
            ExecutionNotFound: it was deleted.
        """
        with self._lock:
            if execution.id in self._tombstones:
                raise ExecutionNotFound(deleted(execution.id))
            if token is not None:
                raise LeaseLost(f"execution {execution.id} is not leased, so token {token} is a stale one")
            if raw := self._kept.get(execution.id):
                execution = self._merged(unmarshal_execution(raw), execution)
            self._kept[execution.id] = marshal_execution(execution)

    def get(self, execution_id: str) -> Execution | None:
        """A copy of the execution; None if there is none."""
        check_execution_id(execution_id)
        with self._lock:
            raw = self._kept.get(execution_id)
        return None if raw is None else unmarshal_execution(raw)

    def delete(self, execution_id: str) -> bool:
        """Delete an execution and leave a tombstone; False if there is none."""
        check_execution_id(execution_id)
        with self._lock:
            if self._kept.pop(execution_id, None) is None:
                return False
            self._tombstones.add(execution_id)
            return True

    def list(self) -> Found:
        """Copies of all executions, oldest first."""
        with self._lock:
            kept = [*self._kept.values()]
        return [unmarshal_execution(raw) for raw in kept]

    def list_by_instance(self, instance_id: str) -> Found:
        """Copies of the executions of one instance, oldest first."""
        return owned_by(self.list(), instance_id)

    @staticmethod
    def _merged(stored: Execution, given: Execution) -> Execution:
        snapshot = given.snapshot()
        if stored.blueprint != given.blueprint:
            raise taken(given.id)
        stored.restore(successor(stored.snapshot(), snapshot))
        return stored
