"""Addresses of servers: a port, or a Unix socket."""

from __future__ import annotations

from pathlib import Path

import pytest

from tasks.http.address import http_url, unix_path, unix_url


@pytest.mark.parametrize(
    ("base", "path", "requested"),
    [
        ("http://127.0.0.1:1/", None, "http://127.0.0.1:1/health"),
        ("https://host/prefix", None, "https://host/prefix/health"),
        ("unix:/run/a b%2F?.sock", "/run/a b%2F?.sock", "http://localhost/health"),
    ],
)
def test_what_is_requested_of_a_server(base: str, path: str | None, requested: str) -> None:
    assert (unix_path(base), http_url(base, "/health")) == (path, requested)


def test_the_path_of_a_socket_is_found_in_its_url() -> None:
    assert unix_path(unix_url(Path("/run/server.sock"))) == "/run/server.sock"
