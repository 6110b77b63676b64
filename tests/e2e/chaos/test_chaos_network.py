"""The proxy that can be slow or cut, in front of a real Valkey that runs all the time."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path

import pytest
import redis
from chaos_network import Proxy, slowed, unreachable
from redis.backoff import NoBackoff
from redis.retry import Retry

from workers.embedded.valkey import is_answering, valkey_process

NO_RETRY = Retry(NoBackoff(), 0)


@pytest.fixture
def socket(tmp_path: Path) -> Iterator[Path]:
    """The socket of a new Valkey."""
    path = tmp_path / "private" / "v.sock"
    server = valkey_process(tmp_path, path, None)
    server.start()
    try:
        server.wait_ready(lambda: is_answering(path), 20)
        yield path
    finally:
        server.stop(5)


def test_an_unreachable_broker_is_reachable_again_with_its_data(socket: Path, tmp_path: Path) -> None:
    client = redis.Redis(unix_socket_path=str(socket), retry=NO_RETRY)
    client.set("kept", 1)
    with unreachable(socket, tmp_path / "real.sock"):
        with pytest.raises(redis.ConnectionError):
            client.ping()
        assert not is_answering(socket)
    assert client.get("kept") == b"1"


def test_a_slowed_broker_answers_later_and_then_as_before(socket: Path, tmp_path: Path) -> None:
    with slowed(socket, tmp_path / "real.sock", delay_s=0.1):
        began = time.monotonic()
        assert is_answering(socket)
        assert time.monotonic() - began >= 0.2
    assert is_answering(socket)


def test_a_cut_proxy_accepts_no_connection_until_it_is_restored(socket: Path, tmp_path: Path) -> None:
    proxy = Proxy(tmp_path / "front.sock", socket)
    client = redis.Redis(unix_socket_path=str(tmp_path / "front.sock"), retry=NO_RETRY)
    try:
        assert client.ping()
        proxy.cut()
        with pytest.raises(redis.ConnectionError):
            client.ping()
        proxy.restore()
        assert client.ping()
    finally:
        client.close()
        proxy.close()
