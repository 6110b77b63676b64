"""Spans of one process, as a receiver gets them; and receivers that are not there."""

from __future__ import annotations

import socket
import time
from collections.abc import Iterator

import pytest
from otlp_receiver import OtlpReceiver, ReceivedSpan

from tasks import logs, tracing
from tasks.secret import register_secret


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


def by_name(receiver: OtlpReceiver) -> dict[str, ReceivedSpan]:
    assert len({span.name for span in receiver.spans}) == len(receiver.spans)
    return {span.name: span for span in receiver.spans}


def test_spans_are_nested_and_say_what_a_log_line_would(
    receiver: OtlpReceiver, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_HEADERS", "authorization=Bearer%20key-of-the-receiver")
    monkeypatch.setenv("OTEL_RESOURCE_ATTRIBUTES", "deployment.environment=test,service.name=ours")
    with logs.fields(run="demo-1"), tracing.trace("demo-1", "evolve"):
        with logs.fields(generation=2), tracing.span("evaluation", plan="g2_pop", candidates=3):
            sent = tracing.headers()
        with tracing.span("answer", parent=sent):  # as in a worker, which has only the message
            pass
    spans = by_name(receiver)
    assert {span.trace for span in spans.values()} == {f"{tracing.trace_id_of('demo-1'):032x}"}
    above = {"evolve": "", "evaluation": spans["evolve"].id, "answer": spans["evaluation"].id}
    assert {name: span.parent for name, span in spans.items()} == above
    evaluation = {"run": "demo-1", "generation": 2, "plan": "g2_pop", "candidates": 3}
    assert spans["evaluation"].attributes == {f"whetstone.{name}": value for name, value in evaluation.items()}
    assert spans["evolve"].resource["deployment.environment"] == "test"
    assert spans["evolve"].resource["service.name"] == "ours"
    assert receiver.headers["authorization"] == "Bearer key-of-the-receiver"


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
