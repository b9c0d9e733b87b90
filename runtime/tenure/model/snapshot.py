"""Everything there is to say about one execution, as one value that shares nothing with it (seed 002)."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, ClassVar

from pydantic import AwareDatetime, ConfigDict, NonNegativeInt

from tenure.model.plain import Plain
from tenure.model.status import CapabilityStatus, ExecutionStatus

_EXACTLY: ConfigDict = ConfigDict(extra="forbid")


@dataclass(frozen=True, slots=True, kw_only=True)
class CapabilityExecutionState:
    """What happened to one capability. The zero value is that of one which the blueprint does not have.

    One that never ran here has no `started_at`: cancelled before it began, skipped, or detached, in which
    case its work and its times are those of the execution that took it over.
    """

    __pydantic_config__: ClassVar[ConfigDict] = _EXACTLY

    status: CapabilityStatus | None = None
    started_at: AwareDatetime | None = None
    completed_at: AwareDatetime | None = None
    error: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class ExecutionSnapshot:
    """Exactly the fields of seed 002; the blueprint is stored beside it.

    `params`, `results` and `states` are by capability id. `in_flight` counts what is scheduled and has no
    outcome; of an execution that the engine runs, its recipe is one of them.
    """

    __pydantic_config__: ClassVar[ConfigDict] = _EXACTLY

    id: str
    correlation_id: str
    instance_id: str = ""
    parent_execution_id: str = ""
    status: ExecutionStatus
    initial_params: dict[str, Any] = field(default_factory=dict)
    params: dict[str, dict[str, Any]] = field(default_factory=dict)
    results: dict[str, Plain] = field(default_factory=dict)
    states: dict[str, CapabilityExecutionState] = field(default_factory=dict)
    in_flight: NonNegativeInt = 0
    started_at: AwareDatetime | None = None
    completed_at: AwareDatetime | None = None
    error: str = ""
