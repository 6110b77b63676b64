"""A secret that a process has read is redacted in whatever the process writes."""

from __future__ import annotations

import pytest

from tasks.common.logs import redact, secret
from tasks.store.client import password_in, redis_url_of


def test_a_secret_is_hidden_once_it_was_read() -> None:
    assert "a-key-nobody-read" in redact("with a-key-nobody-read")

    secret("KEY", {"KEY": " sk-test-0123456789 \n"})

    assert redact("Bearer sk-test-0123456789, twice sk-test-0123456789") == "Bearer [secret], twice [secret]"


@pytest.mark.parametrize("url", ["redis://:p4ss-of-the-tcp@host/0", "unix:///run/socket?db=1&password=p4ss-of-socket"])
def test_the_password_in_an_address_is_a_secret(url: str) -> None:
    redis_url_of({"WHETSTONE_REDIS_URL": url})

    assert password_in(url) not in redact(f"cannot reach {url}")
