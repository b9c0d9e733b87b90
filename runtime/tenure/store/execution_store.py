"""The model's view of what the engine keeps: whole executions in and out, over the very keys it uses.

It is for whoever works with the model. All of an execution is read, payloads too, and all of it is sent to be
saved; the engine itself goes by parts.
"""

from __future__ import annotations

import logging
import uuid
from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime
from typing import Any

import redis
import redis.exceptions as failures

from tenure.errors import ExecutionExists, InvalidInput, Malformed
from tenure.model.execution import Execution
from tenure.model.names import check_execution_id, check_instance_id
from tenure.store.answers import DeleteAnswer, SaveAnswer
from tenure.store.connection import reaching
from tenure.store.keys import Keys
from tenure.store.memory import Found, deleted, duplicate, owned_by
from tenure.store.restoring import StoredParts, restored
from tenure.store.saving import arguments_of, check_saved, in_doubt, unreadable
from tenure.store.scripts import Scripts

log = logging.getLogger(__name__)

_PAGE = 50
#: How Redis words an error that a script ran into, as against one in reaching or calling it.
_SCRIPT_ERROR = "user_script"


class ExecutionStore:
    """The executions of one namespace as values of the model (seed 002).

    Bound to an instance, it sees and touches nothing of any other. Without one it is for operators: it has
    those of all instances, and looks an id up among all of them, which takes time in a large namespace.

    Every method may raise StoreUnreachable, those that write StoreFull and Unconfirmed too, and all that read
    or save Malformed, for what cannot be read. `payload_limit` is in bytes.
    """

    def __init__(
        self,
        client: redis.Redis,
        scripts: Scripts,
        keys: Keys,
        *,
        payload_limit: int,
        events_kept: int,
        instance_id: str | None = None,
    ) -> None:
        # redis-py types every reply for both decoding modes at once; ours is always bytes.
        self._client: Any = client
        self._scripts = scripts
        self._keys = keys
        self._limit = payload_limit
        self._cap = events_kept
        self._instance = None if instance_id is None else check_instance_id(instance_id)

    def add(self, execution: Execution) -> None:
        """Insert an execution. No worker runs it: whoever added it moves it, and saves it.

        Raises:
            ExecutionExists: its id is taken, or was, by one that has been deleted since.
            PayloadTooLarge: its input, or what a capability was given or has brought.
        """
        answer, reply = self._save(execution, insert=True)
        if answer is SaveAnswer.EXISTS:
            raise duplicate(execution.id)
        if answer is SaveAnswer.DELETED:
            raise ExecutionExists(deleted(execution.id))
        check_saved(execution.id, answer, reply)

    def save(self, execution: Execution, *, token: int | None = None) -> None:
        """Insert an execution, or bring what is stored forward to what it has become.

        What is recorded is never altered. `token` is the fencing token of a live lease: that of a capability
        to record its outcome, that of the recipe to end the execution. Of an execution that the engine runs
        only outcomes, and its failed or cancelled end, can be saved.

        Raises:
            LeaseLost: it is leased and this is not the token, or it is not and there is a token.
            IllegalTransition: what is stored has moved on, something recorded would be altered, the engine
                alone may do this, or a task may have had its effect, which must be settled first.
            ExecutionExists: the id is that of another execution.
            ExecutionNotFound: it was deleted.
            PayloadTooLarge: as `add`.
        """
        answer, reply = self._save(execution, insert=False, token=token)
        check_saved(execution.id, answer, reply)

    def get(self, execution_id: str) -> Execution | None:
        """The execution as it is stored now; None if there is none."""
        instance = self._owner(execution_id)
        if instance is None:
            return None
        (parts,) = self._parts(instance, [execution_id])
        return restored(parts) if parts.header else None

    def delete(self, execution_id: str) -> bool:
        """Delete an execution with all that belongs to it, and leave a tombstone; False if there is none.

        A lease on it is void from then on.

        Raises:
            IllegalTransition: a task of it may have had its effect; that is settled first, and not forgotten.
        """
        instance = self._owner(execution_id)
        if instance is None:
            return False
        reply = self._call(
            "delete",
            execution_id,
            {"instance": instance, "execution": execution_id, "nonce": uuid.uuid4().hex},
        )
        if reply["answer"] is DeleteAnswer.IN_DOUBT:
            raise in_doubt(execution_id, reply["subject"])
        return reply["answer"] is DeleteAnswer.DELETED

    def list(self) -> Found:
        """All executions, oldest first. Those that cannot be read are left out, with a warning."""
        if self._instance is not None:
            return self._of(self._instance)
        found = [one for instance in sorted(self._instances()) for one in self._listed(instance)]
        return [execution for _, execution in sorted(found, key=lambda one: one[0])]

    def list_by_instance(self, instance_id: str) -> Found:
        """The executions of one instance, as `list`."""
        if self._instance not in (None, instance_id):
            return []
        return owned_by(self._of(check_instance_id(instance_id)), instance_id)

    # --- reading ---

    def _of(self, instance: str) -> Found:
        return [execution for _, execution in self._listed(instance)]

    def _listed(self, instance: str) -> Iterator[tuple[datetime, Execution]]:
        """Each with the time of its creation."""
        with reaching():
            ids = [raw.decode() for raw in self._client.zrange(self._keys("listing", instance), 0, -1)]
        for start in range(0, len(ids), _PAGE):
            for parts in self._parts(instance, ids[start : start + _PAGE]):
                if not parts.header:
                    continue
                try:
                    yield parts.created_at, restored(parts)
                except Malformed as error:
                    log.warning("left out of the list: %s", error, extra={"execution": parts.execution})

    @reaching()
    def _parts(self, instance: str, ids: Sequence[str]) -> Sequence[StoredParts]:
        # In one transaction: what is read is as of one moment.
        with self._client.pipeline(transaction=True) as pipe:
            for execution in ids:
                for family in ("execution", "records", "params", "results"):
                    pipe.hgetall(self._keys(family, instance, execution))
                pipe.scard(self._keys("in_flight", instance, execution))
            rows = pipe.execute()
        return [StoredParts(instance, one, *rows[5 * n : 5 * n + 5]) for n, one in enumerate(ids)]

    def _owner(self, execution_id: str) -> str | None:
        """The instance that an id is to be looked for in; None if there is no such execution."""
        check_execution_id(execution_id)
        if self._instance is not None:
            return self._instance
        owners = {member.split("/")[0] for member in self._members(f"*/{execution_id}")}
        if len(owners) > 1:
            raise InvalidInput(
                f"instances {', '.join(sorted(owners))} each have an execution {execution_id}; "
                "open the store for one of them"
            )
        return next(iter(owners), None)

    def _instances(self) -> set[str]:
        return {member.split("/")[0] for member in self._members("*")}

    @reaching()
    def _members(self, pattern: str) -> set[str]:
        # One that ends meanwhile moves from the live to the terminal ones, so those are read last.
        return {
            member.decode()
            for index in ("live", "terminal")
            for member, _ in self._client.zscan_iter(self._keys(index), match=pattern, count=1000)
        }

    # --- writing ---

    def _save(
        self, execution: Execution, *, insert: bool, token: int | None = None
    ) -> tuple[SaveAnswer, Mapping[str, Any]]:
        snapshot = execution.snapshot()
        if self._instance not in (None, snapshot.instance_id):
            raise InvalidInput(
                f"execution {snapshot.id} belongs to instance {snapshot.instance_id}, "
                f"and this store is for instance {self._instance}"
            )
        arguments = arguments_of(snapshot, execution.blueprint, payload_limit=self._limit)
        how = {"insert": insert or None, "token": token, "nonce": uuid.uuid4().hex, "cap": self._cap}
        reply = self._call("save", snapshot.id, {**arguments, **how})
        return SaveAnswer(reply["answer"]), reply

    def _call(self, name: str, execution: str, arguments: Mapping[str, Any]) -> dict[str, Any]:
        try:
            return self._scripts.call(name, arguments)
        except failures.ResponseError as error:
            if _SCRIPT_ERROR not in str(error):
                raise
            raise unreadable(execution) from error
