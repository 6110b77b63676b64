"""What a receiver gets of an error; and receivers that are not there."""

from __future__ import annotations

import socket
import time
from collections.abc import Iterator

import pytest
from otlp_receiver import OtlpReceiver

from tasks.common import tracing
from tasks.common.logs import register_secret


@pytest.fixture
def receiver(monkeypatch: pytest.MonkeyPatch) -> Iterator[OtlpReceiver]:
    """A receiver that the environment names, for a process that has sent nothing yet."""
    tracing._provider.cache_clear()
    receiver = OtlpReceiver()
    for name, value in receiver.environment.items():
        monkeypatch.setenv(name, value)
    yield receiver
    tracing._provider.cache_clear()
    receiver.close()


def test_an_error_is_that_of_its_span_without_secrets(receiver: OtlpReceiver) -> None:
    register_secret("the-secret-key-of-a-server")
    with pytest.raises(ValueError), tracing.trace("demo-1", "evolve"), tracing.span("reflect"):
        raise ValueError("401 for the-secret-key-of-a-server")
    errors = {span.name: span.error for span in receiver.spans}
    assert errors == {"reflect": "ValueError: 401 for [secret]", "evolve": "ValueError: 401 for [secret]"}


def test_nothing_waits_for_a_receiver_that_says_nothing(
    receiver: OtlpReceiver, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tracing, "FLUSH_S", 0.3)
    with socket.create_server(("127.0.0.1", 0)) as silent:
        monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", f"http://127.0.0.1:{silent.getsockname()[1]}")
        began = time.monotonic()
        with tracing.trace("demo-1", "evolve"):
            pass
        assert 0.3 <= time.monotonic() - began < 5
