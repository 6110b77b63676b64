"""Requests to servers whose replies do not end, or unpack to far more, or lead elsewhere."""

from __future__ import annotations

import time
import tracemalloc
from collections.abc import Iterator
from pathlib import Path

import pytest
from hostile_server import Hostile, counting_proxy, hostile_server

from tasks.http.bounded import HttpFailed, NotConnected, ReplyLimits, ReplyTimedOut, ReplyTooLarge, fetch
from tasks.http.proxy import is_this_machine, proxy_for

LIMITS = ReplyLimits(5.0, 100_000)
SLOW = ReplyLimits(0.6, 100_000)


@pytest.fixture(scope="module")
def hostile() -> Iterator[Hostile]:
    with hostile_server() as server:
        yield server


@pytest.mark.parametrize("path", ["endless", "announced"])
def test_a_reply_without_end_is_given_up_at_its_limit(hostile: Hostile, path: str) -> None:
    with pytest.raises(ReplyTooLarge, match="more than 100,000 bytes"):
        fetch("GET", f"{hostile.url}/{path}", LIMITS)
    assert hostile.sent < 20_000_000  # what the kernel's buffers take, at most


@pytest.mark.parametrize("path", ["endless_headers", "endless_trailers"])
def test_headers_without_end_are_refused(hostile: Hostile, path: str) -> None:
    started = time.monotonic()
    with pytest.raises(HttpFailed):
        fetch("GET", f"{hostile.url}/{path}", LIMITS)
    assert time.monotonic() - started < 4


@pytest.mark.parametrize("path", ["trickle", "trickle_headers"])
def test_a_reply_that_trickles_is_given_up_in_time(hostile: Hostile, path: str) -> None:
    started = time.monotonic()
    with pytest.raises(ReplyTimedOut, match=r"no whole reply within 0\.6 s"):
        fetch("GET", f"{hostile.url}/{path}", SLOW)
    assert time.monotonic() - started < 3


def test_a_small_reply_that_unpacks_to_a_large_one_is_never_unpacked(hostile: Hostile) -> None:
    with pytest.raises(ReplyTooLarge):
        fetch("GET", f"{hostile.url}/zip", LIMITS)
    tracemalloc.start()
    with pytest.raises(ReplyTooLarge):  # also when it is allowed as it is sent
        fetch("GET", f"{hostile.url}/zip", ReplyLimits(20.0, 4_000_000))
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 30_000_000


def test_a_small_compressed_reply_is_read_though_none_was_requested(hostile: Hostile) -> None:
    assert fetch("GET", f"{hostile.url}/small_zip", LIMITS).body == b'{"a": 1}'
    assert b"Accept-Encoding: identity" in hostile.bodies[-1]


@pytest.mark.parametrize(
    ("path", "reason"), [("cut_zip", "not one whole"), ("two_zips", "not one whole"), ("brotli", "compressed by 'br'")]
)
def test_another_compression_or_a_part_of_one_is_no_reply(hostile: Hostile, path: str, reason: str) -> None:
    with pytest.raises(HttpFailed, match=reason):
        fetch("GET", f"{hostile.url}/{path}", LIMITS)


def test_a_redirect_is_not_followed(hostile: Hostile) -> None:
    reply = fetch("POST", f"{hostile.url}/redirect", LIMITS, content=b"a prompt")
    assert reply.status == 307 and reply.redirect() == f"{hostile.url}/elsewhere"
    assert "/elsewhere" not in hostile.asked


def test_a_redirect_that_says_it_is_compressed_is_still_one(hostile: Hostile) -> None:
    assert fetch("GET", f"{hostile.url}/zipped_redirect", LIMITS).redirect() == f"{hostile.url}/elsewhere"


def test_an_error_that_quotes_the_server_is_one_short_line(hostile: Hostile) -> None:
    with pytest.raises(HttpFailed) as raised:
        fetch("GET", f"{hostile.url}/escapes", LIMITS)
    assert len(str(raised.value)) <= 300 and str(raised.value).isprintable()


def test_a_cookie_is_not_sent_back(hostile: Hostile) -> None:
    fetch("GET", f"{hostile.url}/cookie", LIMITS)
    fetch("GET", f"{hostile.url}/cookie", LIMITS)
    assert b"Cookie" not in hostile.bodies[-1]


def test_a_connection_whose_reply_was_given_up_is_not_used_again(hostile: Hostile) -> None:
    with pytest.raises(ReplyTooLarge):
        fetch("GET", f"{hostile.url}/endless", LIMITS)
    assert fetch("GET", f"{hostile.url}/elsewhere", LIMITS).body == b'{"a": 1}'


def test_a_server_at_a_unix_socket_is_asked_alike(tmp_path: Path) -> None:
    with hostile_server(tmp_path / "s") as server:
        assert fetch("GET", server.url, LIMITS, path="/elsewhere").status == 200
    with pytest.raises(NotConnected):
        fetch("GET", f"unix:{tmp_path}/no-such-socket", LIMITS, path="/elsewhere")


@pytest.mark.parametrize("url", ["http://127.0.0.1:1", "http://localhost.invalid.:80", "ftp://x/", "nonsense"])
def test_an_address_that_cannot_be_asked_is_a_failure(url: str) -> None:
    with pytest.raises(HttpFailed):
        fetch("GET", url, LIMITS)


@pytest.mark.parametrize(
    "host",
    ["127.0.0.1", "127.1", "0x7f000001", "127.9.9.9", "LOCALHOST", "a.localhost", "::1", "::ffff:127.0.0.1", "0.0.0.0",
     "ip6-localhost", "localhost.localdomain"],
)  # fmt: skip
def test_names_of_this_machine(host: str) -> None:
    assert is_this_machine(host)


@pytest.mark.parametrize("host", ["10.0.0.1", "example.org", "localhost.example.org", "2001:db8::1"])
def test_names_of_other_machines(host: str) -> None:
    assert not is_this_machine(host)


def test_a_request_to_this_machine_never_goes_to_a_proxy(hostile: Hostile, monkeypatch: pytest.MonkeyPatch) -> None:
    with counting_proxy() as (proxy, seen):
        monkeypatch.setenv("HTTP_PROXY", proxy)
        monkeypatch.setenv("http_proxy", proxy)
        assert fetch("GET", f"{hostile.url}/elsewhere", LIMITS, use_proxy=True).status == 200
        assert seen == []
        assert fetch("GET", "http://endpoint.example/v1/models", LIMITS, use_proxy=True).status == 502
        assert seen == ["GET http://endpoint.example/v1/models HTTP/1.1"]


@pytest.mark.parametrize("host", ["\uff11\uff12\uff17.0.0.1", "127\u30020\u30020\u30021", "\uff4cocalhost"])
def test_a_host_is_spelled_as_it_is_connected_to(host: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("http_proxy", "proxy:3128")
    assert proxy_for(f"http://{host}:1234/v1") is None


@pytest.mark.parametrize(
    "proxy",
    ["socks5://u:a-password@proxy:1", "http://u:a-password@proxy:port", "http://u:a-pass#word@proxy:1", "http://"],
)
def test_a_proxy_that_is_none_is_refused_and_its_password_is_not_shown(
    proxy: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("http_proxy", proxy)
    with pytest.raises(NotConnected, match="the environment names for http is not http://HOST:PORT") as raised:
        fetch("GET", "http://endpoint.example/v1/models", LIMITS, use_proxy=True)
    assert "a-pass" not in str(raised.value)


def test_no_proxy_names_exceptions(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in (("https_proxy", "proxy:3128"), ("no_proxy", ".internal,other:8443")):
        monkeypatch.setenv(name, value)
        monkeypatch.setenv(name.upper(), value)
    assert proxy_for("https://api.example.org/v1") == "http://proxy:3128"
    assert proxy_for("https://model.internal/v1") is None
    assert proxy_for("https://other:8443/v1") is None
