"""Tenure: durable, environment-aware executions on Redis and RQ.

from tenure import Client, Needs, Retry, Run, TaskContext, recipe, task
"""

from tenure.client.client import Client
from tenure.client.handle import Handle
from tenure.client.starting import Input
from tenure.engine.context import TaskContext
from tenure.engine.definitions import recipe, task
from tenure.engine.run import Run
from tenure.errors import (
    ExecutionCancelled,
    ExecutionError,
    ExecutionExists,
    ExecutionFailed,
    ExecutionNotFound,
    LeaseLost,
    TaskCancelled,
    TaskFailed,
    TenureError,
)
from tenure.model.allocation import Allocation
from tenure.model.needs import Needs
from tenure.model.retry import Retry
from tenure.settings import Settings

__all__ = [
    "Allocation",
    "Client",
    "ExecutionCancelled",
    "ExecutionError",
    "ExecutionExists",
    "ExecutionFailed",
    "ExecutionNotFound",
    "Handle",
    "Input",
    "LeaseLost",
    "Needs",
    "Retry",
    "Run",
    "Settings",
    "TaskCancelled",
    "TaskContext",
    "TaskFailed",
    "TenureError",
    "recipe",
    "task",
]
