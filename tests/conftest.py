"""What every test may use: a real Valkey, one for the whole session, emptied before each test that asks for it."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tasks.store.address import store_url
from tasks.store.client import connect
from tasks.store.store import Store
from workers.embedded.valkey import READY_S, redis_url, remove_socket, socket_path, valkey_process


@pytest.fixture(scope="session")
def valkey_url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The WHETSTONE_REDIS_URL of a server that lives as long as the session."""
    folder = tmp_path_factory.mktemp("valkey")
    socket = socket_path(folder)
    server = valkey_process(folder, socket, None)
    server.start()
    url = redis_url(socket)
    try:
        server.wait_ready(lambda: _answers(url), READY_S)
        yield url
    finally:
        server.stop(5.0)
        remove_socket(folder)


@pytest.fixture
def store(valkey_url: str) -> Store:
    """An empty store."""
    client = connect(store_url(valkey_url))
    client.flushall()
    return Store(client)


def _answers(url: str) -> bool:
    import redis

    try:
        return bool(redis.Redis.from_url(store_url(url)).ping())
    except redis.RedisError:
        return False
