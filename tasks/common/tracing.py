"""Traces of runs, exported over OTLP/HTTP (docs/trackers.md): one trace a run, and a span for each stage.

    with tracing.trace("demo-1a2b", "evolve"):          # the driver
        with tracing.span("generation", generation=0):
            send(headers=tracing.headers())

    with tracing.span("answer", parent=headers):        # a worker: its span is a child of that of the sender

Off unless OTEL_EXPORTER_OTLP_ENDPOINT or OTEL_EXPORTER_OTLP_TRACES_ENDPOINT is set; then nothing of OpenTelemetry is
imported.  A run never waits for the receiver of its traces, except at its end, `FLUSH_S` seconds at most.
"""

from __future__ import annotations

import hashlib
import logging
import os
import secrets
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from functools import cache
from typing import TYPE_CHECKING, Any, TypeVar

from tasks.common import logs
from tasks.common.logs import redact

if TYPE_CHECKING:
    from opentelemetry.sdk.trace import TracerProvider
    from opentelemetry.trace import Span

log = logging.getLogger(__name__)
T = TypeVar("T")

HEADER = "traceparent"  # W3C Trace Context's name
# Milliseconds until a span is sent; less than OpenTelemetry's 5 s, because the process of a worker can end at any time.
DELAY_MS = 1000
FLUSH_S = 3.0

_run: ContextVar[str] = ContextVar("run", default="")


def is_traced() -> bool:
    """Whether the environment asks for traces."""
    exporters = os.environ.get("OTEL_TRACES_EXPORTER") or "otlp"
    is_disabled = os.environ.get("OTEL_SDK_DISABLED", "").lower() == "true" or "otlp" not in exporters.split(",")
    names = ("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "OTEL_EXPORTER_OTLP_ENDPOINT")
    return any(os.environ.get(name) for name in names) and not is_disabled


@contextmanager
def trace(run_id: str, name: str) -> Iterator[None]:
    """The first span of a session of a run.  All sessions of the run have one trace, whose id follows from the run's.

    At its end what is not yet sent is waited for, `FLUSH_S` seconds at most.
    """
    token = _run.set(run_id)
    try:
        with span(name, parent={}):
            yield
    finally:
        _run.reset(token)
        flush(FLUSH_S)


@contextmanager
def span(
    name: str, *, parent: Mapping[str, Any] | None = None, is_ended: bool = True, **attributes: str | float
) -> Iterator[Span | None]:
    """A span around the block, ended with it unless `is_ended` is False; an exception is its error, and ends it.

    It is a child of the span around it, or of the one that the headers `parent` name.  Its attributes are `attributes`
    and the fields that a line of the log has here, each with "whetstone." before its name.
    """
    provider = _provider(os.getpid())
    if provider is None:
        yield None
        return
    from opentelemetry import trace as api
    from opentelemetry.context import Context
    from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator

    above = None if parent is None else TraceContextTextMapPropagator().extract(parent, Context())
    own = provider.get_tracer("whetstone").start_span(name, above, attributes=_attributes(attributes))
    try:
        with api.use_span(own, record_exception=False, set_status_on_exception=False):
            yield own
    except BaseException as error:
        own.set_status(api.StatusCode.ERROR, redact(f"{type(error).__name__}: {error}"))
        own.end()
        raise
    if is_ended:
        own.end()


def spanned(name: str, items: Iterator[T], about: Callable[[T], Mapping[str, str | float]]) -> Iterator[T]:
    """The items, with a span around the work for each; `about` gives the span's attributes, from the item."""
    end = object()
    while True:
        with span(name, is_ended=False) as own:
            item: Any = next(items, end)
        if item is end:
            return  # a span that is never ended is never sent
        if own is not None:
            own.set_attributes(_attributes(about(item)))
            own.end()
        yield item


def headers() -> dict[str, str]:
    """The headers with which a message makes the span of its task a child of the current one."""
    found: dict[str, str] = {}
    if _provider(os.getpid()) is not None:
        from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator

        TraceContextTextMapPropagator().inject(found)
    return {name: value for name, value in found.items() if name == HEADER}


def flush(timeout_s: float = 1.0) -> None:
    """Send the spans of this process that have ended; waits `timeout_s` seconds at most."""
    if (provider := _provider(os.getpid())) is not None:
        # OpenTelemetry's own waiting has no limit (its issue 4568).
        flushing = threading.Thread(target=provider.force_flush, daemon=True)
        flushing.start()
        flushing.join(timeout_s)


def trace_id_of(run_id: str) -> int:
    """The id of a run's trace: 128 bits of the SHA-256 of the run's id."""
    return int.from_bytes(hashlib.sha256(run_id.encode()).digest()[:16])


def _attributes(given: Mapping[str, str | float]) -> dict[str, str | float]:
    here: dict[str, str | float] = dict(logs.current_fields())
    if "generation" in here:
        here["generation"] = int(here["generation"])
    return {f"whetstone.{name}": value for name, value in (here | dict(given)).items()}


@cache
def _provider(pid: int) -> TracerProvider | None:
    """What makes the spans of the process `pid`: a fork has threads of its own.  None where they are off."""
    if not is_traced():
        return None
    try:
        from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
        from opentelemetry.sdk.resources import OTELResourceDetector, Resource
        from opentelemetry.sdk.trace import TracerProvider
        from opentelemetry.sdk.trace.export import BatchSpanProcessor
        from opentelemetry.sdk.trace.id_generator import IdGenerator
    except ImportError:
        log.warning("no traces: OpenTelemetry is not installed; pip install '.[otel]'")
        return None

    class Ids(IdGenerator):
        """Of a run in `trace` the id that belongs to it; otherwise random ones, which take nothing from `random`."""

        def generate_span_id(self) -> int:
            return secrets.randbits(64) or 1

        def generate_trace_id(self) -> int:
            return trace_id_of(_run.get()) if _run.get() else secrets.randbits(128) or 1

    own = {"service.name": "whetstone", "service.instance.id": logs.current_fields().get("worker", "orchestrator")}
    resource = Resource.create({"process.pid": pid, **own, **OTELResourceDetector().detect().attributes})
    provider = TracerProvider(resource=resource, id_generator=Ids(), shutdown_on_exit=False)
    delay = None if os.environ.get("OTEL_BSP_SCHEDULE_DELAY") else DELAY_MS
    provider.add_span_processor(BatchSpanProcessor(OTLPSpanExporter(), schedule_delay_millis=delay))
    return provider
