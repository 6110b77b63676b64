"""A receiver of traces: an HTTP server that takes OTLP as a collector does, and keeps the spans."""

from __future__ import annotations

import gzip
import threading
from collections.abc import Mapping
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import (
    ExportTraceServiceRequest,
    ExportTraceServiceResponse,
)


@dataclass(frozen=True)
class ReceivedSpan:
    """A span as it came; ids are hexadecimal, times seconds since 1970, `parent` is "" for a first span."""

    name: str
    trace: str
    id: str
    parent: str
    began: float
    ended: float
    error: str
    attributes: Mapping[str, Any]
    resource: Mapping[str, Any]

    @property
    def worker(self) -> str:
        """The queue of the worker, or "orchestrator"."""
        return str(self.resource["service.instance.id"]).partition("@")[0]


class OtlpReceiver:
    """Listens on a free port of this machine until it is closed; `headers` are those of the last request."""

    def __init__(self) -> None:
        receiver = self
        self.spans: list[ReceivedSpan] = []
        self.headers: Mapping[str, str] = {}

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers["Content-Length"]))
                if self.headers.get("Content-Encoding") == "gzip":
                    body = gzip.decompress(body)
                is_known = (self.path, self.headers["Content-Type"]) == ("/v1/traces", "application/x-protobuf")
                if is_known:
                    receiver.spans += read_spans(ExportTraceServiceRequest.FromString(body))
                    receiver.headers = {name.lower(): value for name, value in self.headers.items()}
                reply = ExportTraceServiceResponse().SerializeToString()
                self.send_response(200 if is_known else 404)
                self.send_header("Content-Type", "application/x-protobuf")
                self.send_header("Content-Length", str(len(reply)))
                self.end_headers()
                self.wfile.write(reply)

            def log_message(self, *_: object) -> None:
                return

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._server.daemon_threads = True
        threading.Thread(target=self._server.serve_forever, args=(0.02,), daemon=True).start()

    @property
    def environment(self) -> dict[str, str]:
        """What a process needs in its environment to send its traces here."""
        return {"OTEL_EXPORTER_OTLP_ENDPOINT": f"http://127.0.0.1:{self._server.server_port}"}

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()


def read_spans(request: ExportTraceServiceRequest) -> list[ReceivedSpan]:
    return [
        ReceivedSpan(
            span.name, span.trace_id.hex(), span.span_id.hex(), span.parent_span_id.hex(),
            span.start_time_unix_nano / 1e9, span.end_time_unix_nano / 1e9,
            span.status.message if span.status.code == span.status.STATUS_CODE_ERROR else "",
            _values(span.attributes), _values(of_a_process.resource.attributes),
        )
        for of_a_process in request.resource_spans
        for scope in of_a_process.scope_spans
        for span in scope.spans
    ]  # fmt: skip


def _values(pairs: Any) -> dict[str, Any]:
    return {pair.key: getattr(pair.value, pair.value.WhichOneof("value")) for pair in pairs}
