"""The admission adapter: it compares demand with what this slot truly has (seed 000).

It neither matches nor provisions. An incompatible lease is given back with the same route and coordinates;
then its keepalive stops, and only then is `on_handoff` told. Tokens and the session's identity pass through
it as they are.

By hand, around the lease calls of one slot life:

    admission = Admission(runtime, Allocation(memory="16Gi"), on_handoff=tell)
    lease = runtime.claim()
    if lease is not None and admission.accept(lease):
        ...

A worker stops or goes elsewhere when `on_handoff` tells it that it lacks what is needed, or meets the same
route again when it asks for it by name.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from typing import Any, Final

from tenure.engine.admission import GuardedTask
from tenure.engine.definitions import TaskDefinition
from tenure.engine.handoff import ENVIRONMENT_REQUIRED, HandoffEvent
from tenure.engine.placement import Code
from tenure.engine.presence import Phase, Presence, Unwatched
from tenure.model.allocation import Allocation, check_allocation
from tenure.model.demand import Demand, read_needs
from tenure.model.fit import Mismatch, compare
from tenure.model.needs import Needs
from tenure.store.grants import Grant
from tenure.store.leases import SlotLeases

log = logging.getLogger(__name__)

_KEPT: Final = 256


class Admission:
    """Admits leases of `runtime` for one allocation.

    `presence` is the keepalive: what it shows is renewed. `on_handoff` is told at most once of a handoff;
    what must not be missed is read from the outbox.
    """

    def __init__(
        self,
        runtime: SlotLeases,
        allocation: Allocation,
        *,
        presence: Presence | None = None,
        on_handoff: Callable[[HandoffEvent], None] | None = None,
    ) -> None:
        self.allocation = check_allocation(allocation)
        self._runtime = runtime
        self._presence = presence or Unwatched()
        self._on_handoff = on_handoff
        self._staged: tuple[str, Demand] | None = None
        self._compared: dict[str, tuple[Mismatch, ...]] = {}

    def accept(self, lease: Grant, *, base: Needs | None = None) -> bool:
        """Whether this slot may act on a lease, by its published demand; if not, it was given back.

        A recipe route is judged without its scopes: it replays first, and older scopes may belong to finished
        work. One whose demand was never published is judged by `base`, what the recipe declares (preflight);
        that is then published.

        Raises:
            Malformed: the published demand cannot be read; the lease is still held.
            LeaseLost: it was somebody else's meanwhile.
        """
        try:
            return self._accept(lease, base)
        except BaseException:
            # Whatever it was: nothing acquired here is renewed any more, and its lapse brings it back.
            self._presence.show(Phase.IDLE, [])
            raise

    def _accept(self, lease: Grant, base: Needs | None) -> bool:
        preflight = lease.is_recipe and lease.demand is None and base is not None
        demand = _resolve(lease, base) if preflight and base is not None else lease.published_demand()
        lacks = self.compare(demand.unscoped if lease.is_recipe else demand)
        if not lacks:
            return True
        event = HandoffEvent(
            instance=lease.instance,
            execution=lease.execution,
            capability=lease.capability,
            code=str(Code(recipe=lease.code) if lease.is_recipe else Code(task=lease.task)),
            demand=demand,
            allocation=self.allocation,
            mismatches=lacks,
            published=preflight,
        )
        self._runtime.reschedule(
            lease,
            reason=ENVIRONMENT_REQUIRED,
            avoid=True,
            handoff=event.arguments(),
            demand=demand.published if preflight else None,
        )
        self.report(event)
        return False

    def stage(self, execution: str, demand: Demand) -> None:
        """Take note of the demand of the call that an execution comes to next; it is checked by its guard."""
        self._staged = execution, demand

    def wrap_task(self, task: TaskDefinition[..., Any]) -> GuardedTask:
        """Guard a task by what is staged. Every task of a slot is wrapped, or its needs are not enforced."""
        return GuardedTask(task, self._lacks_staged)

    def compare(self, demand: Demand) -> tuple[Mismatch, ...]:
        """What keeps this slot from a demand. Remembered, since a recipe asks for every task call."""
        known = self._compared.get(demand.text)
        if known is None:
            if len(self._compared) >= _KEPT:
                self._compared.clear()
            known = self._compared[demand.text] = compare(demand.effective, self.allocation)
        return known

    def report(self, event: HandoffEvent) -> None:
        """Stop the keepalive and tell `on_handoff`, after the store has acknowledged the handoff."""
        self._presence.show(Phase.IDLE, [])
        log.info(
            "handed off %s of %s: %s",
            event.capability,
            event.execution,
            "; ".join(map(str, event.mismatches)) or "as its task required",
            extra={"execution": event.execution, "capability": event.capability},
        )
        if self._on_handoff is None:
            return
        try:
            self._on_handoff(event)
        except Exception:  # the edge of somebody else's code: the handoff stands whatever it does
            log.exception("on_handoff failed for %s of %s", event.capability, event.execution)

    def _lacks_staged(self, execution: str) -> Sequence[Mismatch]:
        if self._staged is None or self._staged[0] != execution:
            raise AssertionError(f"execution {execution}: a guarded task without a staged demand")
        return self.compare(self._staged[1])


def _resolve(lease: Grant, base: Needs) -> Demand:
    job = read_needs(lease.job_needs, where=f"execution {lease.execution}: its requirements")
    return Demand(recipe=base, job=job)
