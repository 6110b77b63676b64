"""What the SDK's client sends and gets through the program's own HTTP client."""

from __future__ import annotations

from collections.abc import Iterator

import httpx2
import pytest
from hostile_server import Hostile, hostile_server

from tasks.http.bounded import ReplyLimits
from tasks.openai.transport import OversizedReply, bounded_client

LIMITS = ReplyLimits(2.0, 10_000)


@pytest.fixture(scope="module")
def hostile() -> Iterator[Hostile]:
    with hostile_server() as server:
        yield server


def test_headers_and_body_are_passed_on_both_ways(hostile: Hostile) -> None:
    reply = bounded_client(LIMITS, hostile.url).post(
        f"{hostile.url}/small_zip", content=b"a prompt", headers={"X-Own": "1"}
    )
    assert reply.json() == {"a": 1} and reply.headers["content-type"] == "application/json"
    assert hostile.bodies[-1].endswith(b"a prompt") and b"x-own: 1" in hostile.bodies[-1].lower()
    assert hostile.bodies[-1].lower().count(b"accept-encoding:") == 1


@pytest.mark.parametrize(
    ("path", "error"),
    [("zip", OversizedReply), ("endless_headers", httpx2.ReadError), ("brotli", httpx2.ReadError)],
)
def test_failures_are_errors_that_the_sdk_knows(hostile: Hostile, path: str, error: type[Exception]) -> None:
    with pytest.raises(error):
        bounded_client(LIMITS, hostile.url).get(f"{hostile.url}/{path}")


def test_an_address_without_a_server_is_an_error_of_connecting() -> None:
    with pytest.raises(httpx2.ConnectError):
        bounded_client(LIMITS, "").get("http://127.0.0.1:1/")
