"""Tenure: durable, environment-aware executions on Redis and RQ.

from tenure import Client, Needs, Retry, Run, TaskContext, recipe, task
"""

from tenure.client.aio import AsyncClient, AsyncHandle
from tenure.client.client import Client
from tenure.client.environment import Environment, environment_of
from tenure.client.explain import Explanation
from tenure.client.handle import Handle
from tenure.client.listing import Page
from tenure.client.starting import Input
from tenure.engine.context import TaskContext
from tenure.engine.definitions import recipe, task
from tenure.engine.ending import Replayed
from tenure.engine.handoff import HandoffEvent
from tenure.engine.replay import ReplayedCall
from tenure.engine.run import Run
from tenure.errors import (
    ExecutionCancelled,
    ExecutionError,
    ExecutionExists,
    ExecutionFailed,
    ExecutionNotFound,
    InvalidInput,
    LeaseLost,
    NonDeterministicRecipe,
    ReplayCacheMiss,
    StoreUnreachable,
    TaskCancelled,
    TaskFailed,
    TaskTimeout,
    TenureError,
    UnguardedTask,
)
from tenure.model.allocation import Allocation
from tenure.model.blueprint import ExecutionBlueprint
from tenure.model.creation import new_detached_task, new_execution
from tenure.model.execution import Execution
from tenure.model.marshalling import marshal_execution, unmarshal_execution
from tenure.model.needs import Needs
from tenure.model.retry import Retry
from tenure.model.snapshot import CapabilityExecutionState, ExecutionSnapshot
from tenure.model.status import CapabilityStatus, ExecutionStatus
from tenure.scopes.registry import ScopeRegistry
from tenure.scopes.scope import Scope
from tenure.settings import Settings
from tenure.store.answers import CancelAnswer
from tenure.store.execution_store import ExecutionStore
from tenure.store.memory import MemoryStore

__all__ = [
    "Allocation",
    "AsyncClient",
    "AsyncHandle",
    "CancelAnswer",
    "CapabilityExecutionState",
    "CapabilityStatus",
    "Client",
    "Environment",
    "Execution",
    "ExecutionBlueprint",
    "ExecutionCancelled",
    "ExecutionError",
    "ExecutionExists",
    "ExecutionFailed",
    "ExecutionNotFound",
    "ExecutionSnapshot",
    "ExecutionStatus",
    "ExecutionStore",
    "Explanation",
    "Handle",
    "HandoffEvent",
    "Input",
    "InvalidInput",
    "LeaseLost",
    "MemoryStore",
    "Needs",
    "NonDeterministicRecipe",
    "Page",
    "ReplayCacheMiss",
    "Replayed",
    "ReplayedCall",
    "Retry",
    "Run",
    "Scope",
    "ScopeRegistry",
    "Settings",
    "StoreUnreachable",
    "TaskCancelled",
    "TaskContext",
    "TaskFailed",
    "TaskTimeout",
    "TenureError",
    "UnguardedTask",
    "environment_of",
    "marshal_execution",
    "new_detached_task",
    "new_execution",
    "recipe",
    "task",
    "unmarshal_execution",
]
