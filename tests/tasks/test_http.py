"""Requests to servers whose replies do not end or lead elsewhere, and proxies of the environment."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from http_thread import Hostile, hostile_server

from tasks.common.http import OversizedReply, fetch, redirect_of


@pytest.fixture(scope="module")
def hostile() -> Iterator[Hostile]:
    with hostile_server() as server:
        yield server


def test_a_reply_without_end_is_given_up_at_its_limit(hostile: Hostile) -> None:
    with pytest.raises(OversizedReply):
        fetch(hostile.url, "/endless", 5, most=100_000)


def test_a_redirect_is_not_followed(hostile: Hostile) -> None:
    reply = fetch(hostile.url, "/redirect", 5)
    assert (reply.status_code, redirect_of(reply)) == (307, f"{hostile.url}/elsewhere")
    assert "/elsewhere" not in hostile.asked


def test_a_request_to_this_machine_never_goes_to_a_proxy(hostile: Hostile, monkeypatch: pytest.MonkeyPatch) -> None:
    with hostile_server() as proxy:
        monkeypatch.setenv("HTTP_PROXY", proxy.url)
        monkeypatch.setenv("http_proxy", proxy.url)
        fetch(hostile.url, "/elsewhere", 5)
        assert proxy.asked == []
        fetch("http://endpoint.example", "/v1/models", 5)
        assert proxy.asked == ["http://endpoint.example/v1/models"]
