from __future__ import annotations

from collections.abc import Iterator

import pytest

from tenure import Client
from tenure.wiring import Store, open_store


@pytest.fixture
def store(url: str, namespace: str) -> Iterator[Store]:
    with open_store(url, namespace=namespace) as opened:
        yield opened


@pytest.fixture
def client(store: Store) -> Client:
    return Client(store=store)
