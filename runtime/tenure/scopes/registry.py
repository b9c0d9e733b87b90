"""Which scope each live execution has in this process (seed 002).

A scope is a lifetime of this process, and an execution is a value that outlives it. So scopes are kept here,
by execution id, and not on the model. To cancel a scope stops work; it makes no execution terminal.
"""

from __future__ import annotations

import threading
from dataclasses import dataclass
from datetime import timedelta

from tenure.scopes.scope import Scope


@dataclass(slots=True)
class _Bound:
    scope: Scope
    detached: bool


class ScopeRegistry:
    """The scopes of one instance's executions. They derive from `parent`: when the instance ends, they do.

    Whoever makes an execution terminal releases it, so that nothing is bound when all has ended. Threads may
    share it.
    """

    def __init__(self, parent: Scope | None = None) -> None:
        self._parent = parent or Scope()
        self._lock = threading.Lock()
        self._bound: dict[str, _Bound] = {}

    def __len__(self) -> int:
        """How many scopes are bound."""
        with self._lock:
            return len(self._bound)

    def bind(self, execution_id: str) -> Scope:
        """The scope of an execution, made on first use.

        Binding again gives the scope in force, cancelled or not, detached or not: who hears twice that an
        execution has started cannot give its work a scope that escapes its cancellation.
        """
        with self._lock:
            bound = self._bound.get(execution_id)
            if bound is None:
                bound = self._bound[execution_id] = _Bound(self._parent.derive(), detached=False)
            return bound.scope

    def bind_detached(self, execution_id: str) -> Scope:
        """The scope of detached work, which outlives its parent's execution and this instance.

        It ends by `cancel`, by `release`, or when the drain budget is spent. An ordinary scope that is in
        force already stays in force, and outlives the instance from now on.
        """
        with self._lock:
            bound = self._bound.get(execution_id)
            if bound is None:
                bound = self._bound[execution_id] = _Bound(Scope(), detached=True)
            elif not bound.detached:
                bound.detached = True
                bound.scope.outlive_parent()
            return bound.scope

    def cancel(self, execution_id: str, reason: str = "cancelled") -> bool:
        """Stop all work under the scope of an execution; False if it has none, which is no error.

        The scope stays bound until it is released, so that nobody binds a fresh one meanwhile.
        """
        scope = self.context(execution_id)
        if scope is None:
            return False
        scope.cancel(reason)
        return True

    def context(self, execution_id: str) -> Scope | None:
        """The scope of an execution; None if it never started here, or was released."""
        with self._lock:
            bound = self._bound.get(execution_id)
            return None if bound is None else bound.scope

    def release(self, execution_id: str) -> None:
        """Let go of the scope of an execution that has ended, detached or not, and cancel it.

        May be done again, and for one that was never bound.
        """
        with self._lock:
            bound = self._bound.pop(execution_id, None)
        if bound is not None:
            bound.scope.cancel(f"execution {execution_id} is over")

    def release_all(self, drain_budget: timedelta | None = None) -> None:
        """Let go of all scopes but those of detached work, and cancel them: the instance stops.

        Detached work goes on and stays bound until it is released; with a `drain_budget` it is cancelled when
        that is spent.
        """
        with self._lock:
            detached = {one: bound for one, bound in self._bound.items() if bound.detached}
            ended = [bound for one, bound in self._bound.items() if one not in detached]
            self._bound = detached
        for bound in ended:
            bound.scope.cancel("the instance stops")
        if drain_budget is not None:
            for bound in detached.values():
                bound.scope.limit(drain_budget, f"the drain budget of {drain_budget} is spent")
