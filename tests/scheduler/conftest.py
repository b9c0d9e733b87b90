from __future__ import annotations

from collections.abc import Iterator

import pytest
import redis

from tenure.settings import Settings
from tenure.wiring import open_store
from tests.scheduler.world import World


@pytest.fixture
def world(url: str, redis_client: redis.Redis, namespace: str) -> Iterator[World]:
    """A store whose clock the test moves."""
    with open_store(url, namespace=namespace, settings=Settings(), test_clock=True) as store:
        yield World(store, redis_client)


@pytest.fixture
def leader(world: World) -> int:
    """The token of a leader."""
    return world.lead()
