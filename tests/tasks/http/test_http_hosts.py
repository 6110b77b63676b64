"""A server on a loopback address answers to loopback names, whatever the port."""

from __future__ import annotations

import pytest

from tasks.http.hosts import is_loopback_name


@pytest.mark.parametrize("host", ["localhost", "LOCALHOST:80", "127.0.0.1:9100", "[::1]", "[::1]:5", " localhost "])
def test_a_loopback_name_is_known(host: str) -> None:
    assert is_loopback_name(host)


@pytest.mark.parametrize("host", ["", "a.example", "localhost.a.example", "127.0.0.1.a.example:80", "[::2]:1", "::1x"])
def test_another_name_is_none(host: str) -> None:
    assert not is_loopback_name(host)
