from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack

import pytest
import redis

from tenure.settings import Settings
from tenure.wiring import open_store
from tests.engine.site import OpenSite, Site


@pytest.fixture
def open_site(url: str, redis_client: redis.Redis, namespace: str) -> Iterator[OpenSite]:
    """Sites of one namespace; what is given are settings."""
    with ExitStack() as stack:

        def make(at: str = url, **settings: object) -> Site:
            store = open_store(at, namespace=namespace, settings=Settings(**settings), test_clock=True)  # type: ignore[arg-type]  # as given
            return Site(stack.enter_context(store), redis_client)

        yield make


@pytest.fixture
def site(open_site: OpenSite) -> Site:
    """A namespace with default settings whose slots work in this process."""
    return open_site()
