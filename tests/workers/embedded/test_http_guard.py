"""The embedded servers refuse a request before they read it, and no client can hold them or their memory for long."""

from __future__ import annotations

import contextlib
import os
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from urllib.parse import urlsplit

import httpx
import psutil
import pytest

from tasks.limits import REQUEST_BYTES, REQUEST_LEVELS
from workers.embedded.endpoint import ENDPOINT_KEY_VARIABLE
from workers.embedded.http_guard import parse_body_json

HEAD_S = 2.0  # of the endpoint of these tests, in place of 10 s
WITH_SHORT_LIMIT = f"""
from workers.embedded import http_guard
http_guard.HEAD_S = {HEAD_S}
from workers.embedded.endpoint.__main__ import main
main()
"""
KEY = "the-key-of-this-test"
POST = f"POST /v1/chat/completions HTTP/1.1\r\nHost: 127.0.0.1\r\nAuthorization: Bearer {KEY}\r\n"


@pytest.fixture(scope="module")
def endpoint() -> Iterator[tuple[str, psutil.Process]]:
    command = [sys.executable, "-c", WITH_SHORT_LIMIT, "--port", "0"]
    environment = {**os.environ, ENDPOINT_KEY_VARIABLE: KEY}
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=environment) as process:
        assert process.stdout is not None
        yield process.stdout.readline().split()[-1].removesuffix("/v1"), psutil.Process(process.pid)
        process.terminate()


@pytest.fixture
def client(endpoint: tuple[str, psutil.Process]) -> Iterator[httpx.Client]:
    headers = {"authorization": f"Bearer {KEY}"}
    with httpx.Client(base_url=endpoint[0], headers=headers, trust_env=False, timeout=30) as client:
        yield client


def connected(url: str) -> socket.socket:
    parts = urlsplit(url)
    return socket.create_connection((str(parts.hostname), int(parts.port or 0)), timeout=30)


def reply_to(url: str, sent: bytes) -> bytes:
    """What the server sends until it closes the connection."""
    with connected(url) as connection:
        connection.sendall(sent)
        return b"".join(iter(lambda: connection.recv(65536), b""))


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ({"content-type": "text/plain"}, 415),  # what a page of another origin can send without asking
        ({"content-type": "application/x-www-form-urlencoded"}, 415),
        ({"content-type": ""}, 415),
        ({"content-type": "application/json", "content-encoding": "gzip"}, 415),
        ({"content-type": "application/json; charset=utf-8"}, 400),  # read, and lacks a model
        ({"content-type": "application/json", "host": "attacker.example"}, 421),
        ({"content-type": "application/json", "host": "127.0.0.1.attacker.example:80"}, 421),
        ({"content-type": "application/json", "host": "localhost:9"}, 400),
        ({"content-type": "application/json", "host": "[::1]:9"}, 400),
    ],
)
def test_a_body_is_json_and_for_this_host(client: httpx.Client, headers: dict[str, str], status: int) -> None:
    assert client.post("/v1/chat/completions", content=b"{}", headers=headers).status_code == status


def test_a_body_that_is_too_large_is_refused_before_it_is_sent(endpoint: tuple[str, psutil.Process]) -> None:
    url, process = endpoint
    before = process.memory_info().rss
    head = f"{POST}Content-Type: application/json\r\nContent-Length: {10**9}\r\n\r\n"
    assert reply_to(url, head.encode()).startswith(b"HTTP/1.1 413 ")
    assert reply_to(url, head.replace(str(10**9), "9" * 400).encode()).startswith(b"HTTP/1.1 4")
    assert process.memory_info().rss - before < 8e6


def test_a_body_without_a_length_is_refused_at_the_limit(client: httpx.Client, endpoint) -> None:
    before = endpoint[1].memory_info().rss

    def chunks() -> Iterator[bytes]:
        for _ in range(1000):
            yield b" " * 2**20

    json = {"content-type": "application/json"}
    with contextlib.suppress(httpx.TransportError):  # the server has answered and closed while the rest was being sent
        assert client.post("/v1/chat/completions", content=chunks(), headers=json).status_code == 413
    assert endpoint[1].memory_info().rss - before < 4 * REQUEST_BYTES
    assert client.get("/v1/models").status_code == 200


def test_several_large_bodies_at_once_share_one_limit(endpoint: tuple[str, psutil.Process]) -> None:
    """40 clients announce 15 MiB each: those that would make it more than 256 MiB are told to come again."""
    url, _ = endpoint
    head = f"{POST}Content-Type: application/json\r\nContent-Length: {15 * 2**20}\r\n\r\n".encode()
    connections = [connected(url) for _ in range(40)]
    try:
        for connection in connections:
            connection.sendall(head)
        refused = 0
        for connection in connections[17:]:
            refused += connection.recv(100).startswith(b"HTTP/1.1 503 ")
        assert refused == 23
    finally:
        for connection in connections:
            connection.close()
    with httpx.Client(base_url=url, headers={"authorization": f"Bearer {KEY}"}, trust_env=False) as client:
        deadline = time.monotonic() + 10
        while client.post("/v1/chat/completions", json={}).status_code == 503:
            assert time.monotonic() < deadline, "the memory of clients that are gone is not free again"


def test_the_open_path_takes_no_body_and_needs_no_key(endpoint: tuple[str, psutil.Process]) -> None:
    url, _ = endpoint
    assert httpx.get(f"{url}/health", trust_env=False).json() == {"status": "ok"}
    with_body = (
        b"GET /health HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/json\r\nContent-Length: 9\r\n\r\n"
    )
    assert reply_to(url, with_body).startswith(b"HTTP/1.1 413 ")
    assert httpx.get(f"{url}/health", headers={"host": "attacker.example"}, trust_env=False).status_code == 421


def test_a_head_that_trickles_is_cut_off_and_others_are_answered_meanwhile(endpoint) -> None:
    """Given connections that send nothing, half a head, and a byte now and then, after a request or as the first."""
    url, _ = endpoint
    request = f"GET /v1/models HTTP/1.1\r\nHost: 127.0.0.1\r\nAuthorization: Bearer {KEY}\r\n\r\n".encode()
    began = time.monotonic()

    def ended(first: bytes, rest: bytes) -> float:
        with connected(url) as connection:
            connection.sendall(first)
            connection.settimeout(0.5)
            while time.monotonic() - began < 3 * HEAD_S:
                try:
                    connection.sendall(rest)
                    if not connection.recv(65536):
                        break
                except TimeoutError:
                    continue
                except OSError:
                    break
            return time.monotonic() - began

    kinds = [(b"", b""), (b"GET / HTTP/1.1\r\n", b""), (b"GET / HTTP/1.1\r\n", b"a"), (request + b"GET", b"x")]
    with ThreadPoolExecutor(len(kinds)) as pool:
        slow = [pool.submit(ended, *kind) for kind in kinds]
        assert httpx.get(f"{url}/health", trust_env=False).status_code == 200
        assert all(one.result() < HEAD_S + 5 for one in slow)


def test_json_has_a_limit_of_levels() -> None:
    at_most = b"[" * REQUEST_LEVELS + b"1" + b"]" * REQUEST_LEVELS
    assert parse_body_json(at_most)
    assert parse_body_json(b'{"a": [1, {"b": 2}]}') == {"a": [1, {"b": 2}]}
    for deep in (b"[" + at_most + b"]", b"[" * 5000 + b"]" * 5000, b'{"a":' * 100 + b"1" + b"}" * 100):
        with pytest.raises(ValueError, match=f"more than {REQUEST_LEVELS} levels"):
            parse_body_json(deep)
