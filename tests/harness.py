"""What tests need to make executions move: slots of a worker without its processes."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable
from typing import Final

from tenure.engine.definitions import Definitions
from tenure.engine.driver import Driver
from tenure.engine.handoff import HandoffEvent
from tenure.engine.presence import Presence, Unwatched
from tenure.engine.workset import Workset
from tenure.model.allocation import Allocation
from tenure.store.grants import Holder
from tenure.store.sessions import Registration
from tenure.wiring import Store
from tenure_workers.admission import Admission

UNSPECIFIED: Final = Allocation()


def queue_of(
    store: Store, definitions: Definitions, *, pool: str = "p", allocation: Allocation = UNSPECIFIED
) -> str:
    """The queue of all slots of this pool, allocation and code."""
    facts = f"{allocation}\n{definitions.catalogue.to_data()}"
    return store.keys.queue_name(pool, hashlib.sha256(facts.encode()).hexdigest()[:8])


def working_slot(
    store: Store,
    definitions: Definitions,
    *,
    pool: str = "p",
    allocation: Allocation = UNSPECIFIED,
    session: str = "s",
    life: str = "l1",
    presence: Presence | None = None,
    on_handoff: Callable[[HandoffEvent], None] | None = None,
) -> Driver:
    """Register a session of one slot and return its driver; `drain()` works until its queue is empty.

    Nobody renews its leases, so they last as long as the settings' `lease`. Every slot of a test needs a
    `life` of its own, and a `session` of its own unless it takes the place of one that has gone.
    """
    queue = queue_of(store, definitions, pool=pool, allocation=allocation)
    lease_ms = int(store.settings.lease.total_seconds() * 1000)
    generation = store.sessions.register(
        Registration(
            session=session,
            nonce=f"{session}:{life}",
            pool=pool,
            host="test-host",
            boot="test-boot",
            pid=os.getpid(),
            queue=queue,
            slots=1,
            allocation=allocation,
            catalogue=definitions.catalogue,
        ),
        lease_ms=lease_ms,
    )
    holder = Holder(
        life=life,
        session=session,
        generation=generation,
        queue=queue,
        run=store.run_id(),
        lease_ms=lease_ms,
    )
    runtime, presence = store.slot_leases(holder), presence or Unwatched()
    admission = Admission(runtime, allocation, presence=presence, on_handoff=on_handoff)
    return Driver(
        leases=runtime,
        executions=store.executions,
        placement=store.placement,
        workset=Workset.of(definitions, admission),
        presence=presence,
        admission=admission,
        settings=store.settings,
    )
