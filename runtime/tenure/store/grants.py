"""What a slot is given to work on, as the store's scripts describe it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from tenure.model.demand import Demand
from tenure.model.status import Effects
from tenure.store.answers import StepAnswer
from tenure.store.keys import RECIPE, route_member
from tenure.store.scripts import as_bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class Holder:
    """Who holds leases: one slot life of one session, listening on one queue."""

    life: str
    session: str
    generation: int
    queue: str
    run: str
    lease_ms: int

    def arguments(self) -> dict[str, Any]:
        """As the scripts take it."""
        return {
            "life": self.life,
            "session": self.session,
            "generation": self.generation,
            "queue": self.queue,
            "run": self.run,
            "lease": self.lease_ms,
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class Grant:
    """The lease on one route, with what is needed to act on it."""

    instance: str
    execution: str
    capability: str
    token: int
    attempt: int
    #: Attempts that ended with an exception; retries count these, not attempts lost with their slot.
    failures: int
    params: bytes
    #: As it was published; None if it never was. `published_demand` reads it.
    demand: str | None
    #: Counts what has been published for this route.
    revision: int
    # of a task route
    task: str = ""
    effects: Effects = Effects.REPEATABLE
    # of a recipe route
    recipe: str = ""
    version: str = ""
    correlation: str = ""
    job_needs: str | None = None
    checkpoints: Mapping[str, str] = field(default_factory=dict)
    ordinals: int = 0

    @property
    def is_recipe(self) -> bool:
        """Whether this is the recipe route: replay and advance the execution."""
        return self.capability == RECIPE

    @property
    def code(self) -> str:
        """The code that a recipe route needs, as sessions advertise it: `name@version`."""
        return f"{self.recipe}@{self.version}"

    def published_demand(self) -> Demand:
        """The demand this lease was published with. Raises `Malformed`, naming the execution."""
        return Demand.read(self.demand, where=f"execution {self.execution}: the demand of {self.capability}")

    @property
    def route(self) -> str:
        """The route as indexes and agents name it."""
        return route_member(self.instance, self.execution, self.capability)

    @classmethod
    def from_reply(cls, grant: Mapping[str, Any]) -> Grant:
        """Read the `grant` of a reply."""
        return cls(
            instance=grant["instance"],
            execution=grant["execution"],
            capability=grant["capability"],
            token=int(grant["token"]),
            attempt=int(grant["attempt"]),
            failures=int(grant["failures"]),
            params=as_bytes(grant["params"]),
            demand=grant.get("demand"),
            revision=int(grant.get("revision") or 0),
            task=grant.get("task") or "",
            effects=Effects(grant["effects"]),
            recipe=grant.get("recipe") or "",
            version=grant.get("version") or "",
            correlation=grant.get("correlation") or "",
            job_needs=grant.get("job_needs"),
            # Lua packs an empty table as a list.
            checkpoints=grant.get("checkpoints") or {},
            ordinals=int(grant.get("ordinals") or 0),
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class StepReply:
    """The answer to one step: at most one of `run` (the chain goes on) and `grant` (other work)."""

    answer: StepAnswer
    recipe_token: int | None = None
    run_token: int | None = None
    run_attempt: int = 1
    grant: Grant | None = None
    ended: str | None = None
    #: Whether the step has published the demand that it was to hand off.
    published: bool = False

    @classmethod
    def from_reply(cls, reply: Mapping[str, Any]) -> StepReply:
        """Read the reply of `step.lua`."""
        run, grant = reply.get("run"), reply.get("grant")
        return cls(
            answer=reply["answer"],
            recipe_token=reply.get("recipe_token"),
            run_token=run["token"] if run else None,
            run_attempt=run["attempt"] if run else 1,
            grant=Grant.from_reply(grant) if grant else None,
            ended=reply.get("ended"),
            published=bool(reply.get("published")),
        )
