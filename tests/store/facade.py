"""The store of the model over the keys of a stage."""

from __future__ import annotations

from tenure.store.execution_store import ExecutionStore
from tests.store.stage import Stage


def facade(stage: Stage, instance: str | None = None, *, payload_limit: int = 1024) -> ExecutionStore:
    """Without an instance, for all of them."""
    store = stage.store
    return ExecutionStore(
        store.client,
        store.scripts,
        store.keys,
        payload_limit=payload_limit,
        events_kept=store.settings.events,
        instance_id=instance,
    )
