"""What a namespace holds, to see that nothing was stored or changed."""

from __future__ import annotations

from typing import Any

from tenure.wiring import Store


def dump(store: Store) -> dict[bytes, Any]:
    """Every key of the namespace with its value as the server serialises it."""
    client: Any = store.client
    return {key: client.dump(key) for key in client.scan_iter(match=f"{store.namespace}:*")}
