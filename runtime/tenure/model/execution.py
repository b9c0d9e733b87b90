"""One execution as a value with rules: what may happen to it, and what each thing that happens means.

The rules are those of seed 002; which status may follow which is asked of the tables that the store's scripts
are made from too. A report that comes too late changes nothing and says so; anything else that is not allowed
is an error. Everything given is brought to plain data and copied, and so is everything handed out.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from concurrent.futures import CancelledError
from datetime import UTC, datetime
from typing import Any

from tenure.errors import ExecutionCancelled, ExecutionFailed, IllegalTransition, InvalidInput
from tenure.model.blueprint import ExecutionBlueprint, HasCapabilities
from tenure.model.capabilities import Capabilities
from tenure.model.data import deep_copy, to_plain
from tenure.model.latch import Latch, wait_for_any
from tenure.model.plain import Plain
from tenure.model.snapshot import CapabilityExecutionState, ExecutionSnapshot
from tenure.model.status import CapabilityStatus, ExecutionStatus, check_move, is_terminal, may_move

Reason = BaseException | str


class Execution:
    """One durable run. Threads may share it: each method is one atomic step.

    It is a model and does nothing by itself: a store keeps it, an engine moves it. Made by `new_execution`,
    `new_detached_task`, a store's `get` or `unmarshal_execution`. `clock` tells the times it notes, which
    decide nothing.
    """

    def __init__(
        self,
        *,
        execution_id: str,
        correlation_id: str,
        instance_id: str,
        blueprint: HasCapabilities,
        parent_execution_id: str = "",
        clock: Callable[[], datetime] | None = None,
    ) -> None:
        self.id = execution_id
        self.correlation_id = correlation_id
        self.instance_id = instance_id
        self.parent_execution_id = parent_execution_id
        self.blueprint = ExecutionBlueprint.of(blueprint)
        self._clock = clock or _now
        # Reentrant, so that a step may be made of others.
        self._lock = threading.RLock()
        self._done = Latch()
        self._status = ExecutionStatus.PENDING
        self._initial_params: dict[str, Any] = {}
        self._capabilities = Capabilities(execution_id, self.blueprint.capabilities)
        self._in_flight = 0
        self._started_at: datetime | None = None
        self._completed_at: datetime | None = None
        self._error = ""

    def __repr__(self) -> str:
        return f"<execution {self.id}, {self.status}>"

    # --- what it is ---

    @property
    def status(self) -> ExecutionStatus:
        """Where it stands."""
        with self._lock:
            return self._status

    @property
    def is_terminal(self) -> bool:
        """Whether nothing can follow."""
        return is_terminal(self.status)

    @property
    def error(self) -> str:
        """Why it failed or was cancelled; empty otherwise."""
        with self._lock:
            return self._error

    @property
    def started_at(self) -> datetime | None:
        """When it began to run, in UTC."""
        with self._lock:
            return self._started_at

    @property
    def completed_at(self) -> datetime | None:
        """When it ended, however it ended, in UTC."""
        with self._lock:
            return self._completed_at

    @property
    def in_flight(self) -> int:
        """How many capabilities are scheduled and have no outcome; zero once it has ended (G6)."""
        with self._lock:
            return self._in_flight

    @property
    def done(self) -> Latch:
        """Set once, when it has ended; in one that was restored as ended, from the beginning."""
        with self._lock:
            return self._done

    def initial_params(self) -> dict[str, Any]:
        """A copy of its input."""
        with self._lock:
            return deep_copy(self._initial_params)  # type: ignore[no-any-return]  # plain data is Any

    def params(self, capability_id: str) -> dict[str, Any]:
        """A copy of what a capability was given; empty if nothing is recorded."""
        with self._lock:
            return deep_copy(self._capabilities.params.get(capability_id, {}))  # type: ignore[no-any-return]  # as above

    def result(self, capability_id: str) -> Plain:
        """A copy of the recorded result; None if there is none."""
        with self._lock:
            return deep_copy(self._capabilities.results.get(capability_id))

    def results(self) -> dict[str, Plain]:
        """A copy of every recorded result by capability: what the execution as a whole has brought.

        Of an execution that the engine ran, what its recipe returned is there too, as "recipe".
        """
        with self._lock:
            return deep_copy(self._capabilities.results)  # type: ignore[no-any-return]  # as above

    def string_keyed_results(self) -> dict[str, Plain]:
        """The same as `results`: here ids are texts already. Seed 002 has it for the wire."""
        return self.results()

    def capability_state(self, capability_id: str) -> CapabilityExecutionState:
        """What happened to one capability; the zero value for one that the blueprint does not have."""
        with self._lock:
            return self._capabilities.states.get(capability_id, CapabilityExecutionState())

    def detached_capability_ids(self) -> list[str]:
        """The capabilities that were handed to executions of their own."""
        with self._lock:
            return [
                one for one, s in self._capabilities.states.items() if s.status is CapabilityStatus.DETACHED
            ]

    # --- the execution moves ---

    def start(self, initial_params: Mapping[str, Any], initial_capability_count: int) -> None:
        """Begin to run, with so many capabilities scheduled.

        Raises:
            IllegalTransition: it is not pending.
            InvalidInput: there is no entry to begin with, or the parameters are not plain data.
        """
        if initial_capability_count < 1:
            raise InvalidInput(f"execution {self.id} needs at least one entry to start with")
        params = _as_params(initial_params, f"execution {self.id}: its input")
        with self._lock:
            check_move(self._status, ExecutionStatus.RUNNING, subject=f"execution {self.id}")
            self._status, self._started_at = ExecutionStatus.RUNNING, self._clock()
            self._initial_params, self._in_flight = params, initial_capability_count

    def complete_current_and_schedule(self, next_capability_count: int) -> int:
        """Account for one that is over and for those that follow it, in one step; returns what is in flight.

        Raises:
            IllegalTransition: it is not running, or nothing is in flight.
            InvalidInput: the count is negative.
        """
        if next_capability_count < 0:
            raise InvalidInput(f"execution {self.id}: {next_capability_count} capabilities cannot follow")
        with self._lock:
            self._check_running("a capability cannot be accounted for")
            if self._in_flight == 0:
                raise IllegalTransition(f"execution {self.id} has nothing in flight that could be over")
            self._in_flight += next_capability_count - 1
            return self._in_flight

    def mark_completed(self) -> bool:
        """End it as completed; False, and no change, unless it runs."""
        return self._end(ExecutionStatus.COMPLETED, "")

    def mark_failed(self, error: Reason) -> bool:
        """End it as failed; False, and no change, if it has ended. What still ran is closed as cancelled."""
        return self._end(ExecutionStatus.FAILED, _text(error))

    def mark_cancelled(self, reason: Reason) -> bool:
        """End it as cancelled, which is no failure (G14); False, and no change, if it has ended.

        Whatever has no outcome is abandoned; detached work goes on in its own execution.
        """
        return self._end(ExecutionStatus.CANCELLED, _text(reason))

    # --- its capabilities move ---

    def mark_capability_ready(self, capability_id: str, params: Mapping[str, Any]) -> None:
        """Give a pending capability of a running execution its parameters.

        Raises:
            IllegalTransition: the execution does not run, or the capability is not pending.
            InvalidInput: there is no such capability, or the parameters are not plain data.
        """
        plain = _as_params(params, f"execution {self.id}: the parameters of {capability_id}")
        with self._lock:
            self._move(capability_id, CapabilityStatus.READY)
            self._capabilities.params[capability_id] = plain

    def mark_capability_running(self, capability_id: str) -> None:
        """Note that a ready capability has begun. Raises as `mark_capability_ready`."""
        with self._lock:
            self._move(capability_id, CapabilityStatus.RUNNING, started_at=self._clock())

    def mark_capability_completed(self, capability_id: str, output: Plain) -> None:
        """Record the result of a running capability; it never changes (G4).

        `output` may be any plain data, since a task may return any. Raises as `mark_capability_ready`.
        """
        plain = to_plain(output, where=f"execution {self.id}: the result of {capability_id}")
        with self._lock:
            self._move(capability_id, CapabilityStatus.COMPLETED, completed_at=self._clock())
            self._capabilities.results[capability_id] = plain

    def mark_capability_detached(self, capability_id: str) -> None:
        """Note that a ready capability was handed to an execution of its own.

        It never began here and its end is not seen here, so no time is noted. Raises as
        `mark_capability_ready`.
        """
        with self._lock:
            self._move(capability_id, CapabilityStatus.DETACHED)

    def mark_capability_skipped(self, capability_id: str) -> None:
        """Note that a pending capability is not needed. Raises as `mark_capability_ready`."""
        with self._lock:
            self._move(capability_id, CapabilityStatus.SKIPPED, completed_at=self._clock())

    def mark_capability_failed(self, capability_id: str, error: Reason) -> bool:
        """Record a failure; False, and no change, if it is unknown or has an outcome, or all has ended."""
        return self._report(capability_id, CapabilityStatus.FAILED, error)

    def mark_capability_cancelled(self, capability_id: str, reason: Reason) -> bool:
        """Record that something else stopped it, which blames nobody; False as `mark_capability_failed`."""
        return self._report(capability_id, CapabilityStatus.CANCELLED, reason)

    # --- the whole of it ---

    def wait(self, timeout: float | None = None, *, until: Latch | None = None) -> None:
        """Wait until it has completed. It observes, never drives.

        Raises:
            ExecutionFailed, ExecutionCancelled: how it ended otherwise.
            TimeoutError: it has not ended within `timeout` seconds.
            concurrent.futures.CancelledError: `until`, say of a scope, was set first.
        """
        done = self.done
        wait_for_any(done, *([until] if until else []), timeout=timeout)
        if not done.is_set():
            if until is not None and until.is_set():
                raise CancelledError(f"stopped waiting for execution {self.id}, which has not ended")
            raise TimeoutError(f"execution {self.id} is still {self.status} after {timeout} s")
        with self._lock:
            status, error = self._status, self._error
        if status is ExecutionStatus.FAILED:
            raise ExecutionFailed(self.id, error)
        if status is ExecutionStatus.CANCELLED:
            raise ExecutionCancelled(self.id, error)

    def snapshot(self) -> ExecutionSnapshot:
        """All of it as of one moment."""
        with self._lock:
            return ExecutionSnapshot(
                id=self.id,
                correlation_id=self.correlation_id,
                instance_id=self.instance_id,
                parent_execution_id=self.parent_execution_id,
                status=self._status,
                initial_params=deep_copy(self._initial_params),
                params=deep_copy(self._capabilities.params),
                results=deep_copy(self._capabilities.results),
                states=dict(self._capabilities.states),
                in_flight=self._in_flight,
                started_at=self._started_at,
                completed_at=self._completed_at,
                error=self._error,
            )

    def restore(self, snapshot: ExecutionSnapshot) -> None:
        """Become what a snapshot says. Raises `InvalidInput` for the snapshot of another execution."""
        if snapshot.id != self.id:
            raise InvalidInput(f"execution {self.id} cannot be restored from the snapshot of {snapshot.id}")
        with self._lock:
            self.correlation_id, self.instance_id = snapshot.correlation_id, snapshot.instance_id
            self.parent_execution_id = snapshot.parent_execution_id
            self._status, self._error = snapshot.status, snapshot.error
            self._initial_params = deep_copy(snapshot.initial_params)
            self._capabilities = Capabilities(self.id, self.blueprint.capabilities)
            self._capabilities.states |= snapshot.states
            self._capabilities.params = deep_copy(snapshot.params)
            self._capabilities.results = deep_copy(snapshot.results)
            self._in_flight = snapshot.in_flight
            self._started_at, self._completed_at = snapshot.started_at, snapshot.completed_at
            if self._done.is_set():
                self._done = Latch()
            done = self._done
        if is_terminal(snapshot.status):
            done.set()

    # --- how the moves are made ---

    def _move(self, capability_id: str, to: CapabilityStatus, **times: datetime) -> None:
        self._capabilities.check_known(capability_id)
        self._check_running(f"capability {capability_id} cannot become {to}")
        self._capabilities.move(capability_id, to, **times)

    def _check_running(self, what: str) -> None:
        if self._status is not ExecutionStatus.RUNNING:
            raise IllegalTransition(f"execution {self.id} is {self._status} and not running, so {what}")

    def _report(self, capability_id: str, to: CapabilityStatus, reason: Reason) -> bool:
        with self._lock:
            if is_terminal(self._status) or capability_id not in self._capabilities.states:
                return False
            return self._capabilities.close(capability_id, to, _text(reason), self._clock())

    def _end(self, to: ExecutionStatus, error: str) -> bool:
        with self._lock:
            if not may_move(self._status, to):
                return False
            self._status, self._error, self._in_flight = to, error, 0
            self._completed_at = self._clock()
            # What was never reached stays pending, unless it is called off.
            cancelled = to is ExecutionStatus.CANCELLED
            reason = error if cancelled else f"the execution ended as {to}"
            self._capabilities.abandon(reason, self._completed_at, even_pending=cancelled)
            done = self._done
        done.set()
        return True


def _now() -> datetime:
    # No finer than the store keeps times, so that an execution reads back as it was saved.
    now = datetime.now(UTC)
    return now.replace(microsecond=now.microsecond // 1000 * 1000)


def _as_params(params: Mapping[str, Any], where: str) -> dict[str, Any]:
    if not isinstance(params, Mapping):
        raise InvalidInput(f"{where} must be a mapping from names to values, not {type(params).__name__}")
    return to_plain(dict(params), where=where)  # type: ignore[no-any-return]  # plain data is Any


def _text(reason: Reason) -> str:
    # A file name in a message may be no Unicode; that must not keep the outcome from being stored.
    text = str(reason) or type(reason).__name__
    return text.encode("utf-8", "replace").decode()
