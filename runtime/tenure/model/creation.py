"""How executions come into being: pending, with an id, not stored yet."""

from __future__ import annotations

import uuid

from tenure.model.blueprint import HasCapabilities
from tenure.model.execution import Execution
from tenure.model.names import check_execution_id, check_instance_id


def new_execution(
    blueprint: HasCapabilities,
    correlation_id: str = "",
    instance_id: str = "default",
    *,
    execution_id: str | None = None,
) -> Execution:
    """A pending execution. Its id is a random one, and its correlation id the same, unless they are given.

    Raises `InvalidInput` for a name or id that does not follow its rule.
    """
    return _new(blueprint, correlation_id, instance_id, "", execution_id)


def new_detached_task(
    scope: HasCapabilities,
    correlation_id: str,
    instance_id: str,
    parent_execution_id: str,
    *,
    execution_id: str | None = None,
) -> Execution:
    """The pending execution that takes over a detached capability and all that is downstream of it.

    `scope` is that part of the blueprint. Store it before the handoff is acknowledged, and start it only then
    (G15). Raises `InvalidInput` as `new_execution`.
    """
    check_execution_id(parent_execution_id)
    return _new(scope, correlation_id, instance_id, parent_execution_id, execution_id)


def _new(
    blueprint: HasCapabilities,
    correlation_id: str,
    instance_id: str,
    parent_execution_id: str,
    execution_id: str | None,
) -> Execution:
    execution_id = uuid.uuid4().hex if execution_id is None else check_execution_id(execution_id)
    return Execution(
        execution_id=execution_id,
        correlation_id=correlation_id or execution_id,
        instance_id=check_instance_id(instance_id),
        parent_execution_id=parent_execution_id,
        blueprint=blueprint,
    )
