"""The line that can be cut: before a real Valkey, which itself stays well."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path

import pytest
import redis
from chaos_network import Line, away, slowly

from workers.embedded.valkey import answers, valkey_process


@pytest.fixture
def socket(tmp_path: Path) -> Iterator[Path]:
    """The socket of a Valkey of this test's own."""
    path = tmp_path / "private" / "v.sock"
    server = valkey_process(tmp_path, path, None)
    server.start()
    try:
        server.wait_ready(lambda: answers(path), 20)
        yield path
    finally:
        server.stop(5)


def test_a_broker_that_is_away_cannot_be_reached_and_comes_back_with_its_data(socket: Path, tmp_path: Path) -> None:
    client = redis.Redis(unix_socket_path=str(socket))
    client.set("kept", 1)
    with away(socket, tmp_path / "real.sock"):
        with pytest.raises(redis.ConnectionError):
            client.ping()
        assert not answers(socket)
    assert client.get("kept") == b"1"


def test_a_slow_broker_answers_later_and_then_as_before(socket: Path, tmp_path: Path) -> None:
    with slowly(socket, tmp_path / "real.sock", delay_s=0.1):
        began = time.monotonic()
        assert answers(socket)
        assert time.monotonic() - began >= 0.2
    assert answers(socket)


def test_a_cut_line_takes_nobody_until_it_is_mended(socket: Path, tmp_path: Path) -> None:
    line = Line(tmp_path / "front.sock", socket)
    client = redis.Redis(unix_socket_path=str(tmp_path / "front.sock"))
    try:
        assert client.ping()
        line.cut()
        with pytest.raises(redis.ConnectionError):
            client.ping()
        line.mend()
        assert client.ping()
    finally:
        client.close()
        line.close()
