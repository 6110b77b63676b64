"""The sessions of a process: one for each server and key, and the address of a server at a Unix socket."""

from __future__ import annotations

import asyncio

import pytest

from tasks.http.address import http_url
from tasks.http.connections import CONNECTIONS, SESSIONS


@pytest.mark.parametrize(
    ("base_url", "url"),
    [
        ("http://127.0.0.1:80", "http://127.0.0.1:80/generate"),
        ("https://host/prefix/", "https://host/prefix/generate"),
        ("unix:/run/target.sock", "http://localhost/generate"),
        ("unix:///run/target.sock", "http://localhost/generate"),
    ],
)
def test_what_is_requested_of_a_server(base_url: str, url: str) -> None:
    assert http_url(base_url, "/generate") == url


def test_a_session_is_of_one_server_and_one_key_and_the_least_used_is_closed() -> None:
    async def sessions() -> None:
        first = await CONNECTIONS.session("http://one:1/v1", "a")
        assert await CONNECTIONS.session("http://one:1/v2", "a") is first
        assert await CONNECTIONS.session("http://one:1", "b") is not first
        assert await CONNECTIONS.session("unix:/run/a") is not await CONNECTIONS.session("unix:/run/b")
        for number in range(SESSIONS):
            await CONNECTIONS.session(f"http://other:{number + 1}")
        assert first.closed

    asyncio.run_coroutine_threadsafe(sessions(), CONNECTIONS.loop()).result(10)
