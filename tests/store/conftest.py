from __future__ import annotations

from collections.abc import Iterator

import pytest
import redis

from tenure.settings import Settings
from tenure.wiring import open_store
from tests.store.stage import Stage


@pytest.fixture
def stage(url: str, redis_client: redis.Redis, namespace: str) -> Iterator[Stage]:
    """A store whose clock the test moves."""
    with open_store(url, namespace=namespace, settings=Settings(), test_clock=True) as store:
        yield Stage(store, redis_client)
