"""A handle on one execution: look at it, wait for it, fetch its result."""

from __future__ import annotations

import time
import uuid
from collections.abc import Callable, Iterator
from functools import partial
from typing import TYPE_CHECKING, Any, TypeVar

from tenure.client.explain import Explanation, explain
from tenure.engine.definitions import RecipeDefinition
from tenure.errors import (
    ExecutionCancelled,
    ExecutionFailed,
    ExecutionNotFound,
    Malformed,
    StoreUnreachable,
)
from tenure.model.data import decode
from tenure.model.status import ExecutionStatus, is_terminal
from tenure.store.answers import CancelAnswer
from tenure.store.events import Event
from tenure.store.keys import RECIPE
from tenure.store.stored import StoredExecution

if TYPE_CHECKING:
    from tenure.wiring import Store

R = TypeVar("R")

#: How long a waiting client leaves a server alone that did not answer.
AWAY_SECONDS = 0.2


def not_found(instance: str, execution: str) -> ExecutionNotFound:
    """The error for an id that the instance does not have."""
    return ExecutionNotFound(f"execution {execution} is not known to instance {instance}")


class Handle:
    """Names an execution of one instance. Making one does not ask the store anything."""

    def __init__(
        self, store: Store, instance: str, execution: str, definition: RecipeDefinition[Any] | None = None
    ) -> None:
        self._store = store
        self._instance = instance
        self._definition = definition
        self.id = execution

    def __repr__(self) -> str:
        return f"<execution {self.id}>"

    def snapshot(self) -> StoredExecution:
        """Everything stored about it but its payloads, as of now.

        Raises:
            ExecutionNotFound: no execution of this id belongs to the instance.
            Malformed: what is stored cannot be read.
        """
        stored = self._store.executions.get(self._instance, self.id)
        if stored is None:
            raise not_found(self._instance, self.id)
        return stored

    def status(self) -> ExecutionStatus:
        """pending, running, completed, failed or cancelled."""
        return self._status()

    def wait(self, timeout: float | None = None) -> ExecutionStatus:
        """Wait until it has ended, however it ends. It observes, never drives.

        Raises:
            TimeoutError: it has not ended within `timeout` seconds.
        """
        deadline = None if timeout is None else time.monotonic() + timeout
        cursor = self._patiently(self._store.events.cursor, deadline)
        while True:
            status = self._patiently(self._status, deadline)
            if is_terminal(status):
                return status
            left = 5.0 if deadline is None else deadline - time.monotonic()
            if left <= 0:
                raise TimeoutError(f"execution {self.id} is still {status} after {timeout:g} s")
            watch = partial(self._store.events.wait, self._instance, self.id, cursor, seconds=min(left, 5.0))
            cursor, _ = self._patiently(watch, deadline)

    def result(self, timeout: float | None = None) -> Any:
        """Wait for it and return its result, as the recipe declares it.

        Raises:
            ExecutionFailed, ExecutionCancelled: how it ended otherwise, with its id.
            TimeoutError: it has not ended within `timeout` seconds.
        """
        status = self.wait(timeout)
        if status is ExecutionStatus.COMPLETED:
            return self._decoded_result()
        error = self.snapshot().error or "no reason is recorded"
        raise (ExecutionFailed if status is ExecutionStatus.FAILED else ExecutionCancelled)(self.id, error)

    def events(self, *, follow: bool = False, after: int = 0) -> Iterator[Event]:
        """Its events in order, each once; with `follow`, until it has ended."""
        self._status()
        if not follow:
            yield from self._store.events.read(self._instance, self.id, after=after)
            return
        for event in self._store.events.follow(self._instance, self.id, after=after):
            if event is not None:
                after = event.seq
                yield event
            if (event is None or event.kind.startswith("execution_")) and is_terminal(self._status()):
                yield from self._store.events.read(self._instance, self.id, after=after)
                return

    def cancel(self, reason: str = "") -> CancelAnswer:
        """Ask that it ends as cancelled; see `Client.cancel`."""
        answer = self._store.executions.cancel(
            self._instance, self.id, reason=reason or "cancelled by its owner", nonce=uuid.uuid4().hex
        )
        if answer is CancelAnswer.NOT_FOUND:
            raise not_found(self._instance, self.id)
        return answer

    def explain(self) -> Explanation:
        """Why it is not moving, since when, and what would change it."""
        sessions = self._store.sessions
        return explain(self.snapshot(), self._store.placement.view(), led=sessions.scheduler_leads())

    def _patiently(self, read: Callable[[], R], deadline: float | None) -> R:
        """Read again while the server is away: waiting may outlast an outage."""
        give_up = time.monotonic() + self._store.settings.resend.total_seconds()
        while True:
            try:
                return read()
            except StoreUnreachable:
                if time.monotonic() >= min(give_up, deadline or give_up):
                    raise
                self._store.revive()
                time.sleep(AWAY_SECONDS)

    def _status(self) -> ExecutionStatus:
        status = self._store.executions.status(self._instance, self.id)
        if status is None:
            raise not_found(self._instance, self.id)
        return status

    def _decoded_result(self) -> Any:
        raw = self._store.executions.result(self._instance, self.id)
        if raw is None and RECIPE not in self.snapshot().records:
            # It was stored through the model and no recipe ran: its result is that of its capabilities.
            found = self._store.execution_store(self._instance).get(self.id)
            return {} if found is None else found.string_keyed_results()
        if raw is None:
            raise Malformed(f"execution {self.id} completed, but its result is missing from the store")
        plain = decode(raw, where=f"execution {self.id}: its result")
        return plain if self._definition is None else self._definition.signature.load_result(plain)
