"""The exporter's HTTP: a few requests at a time, each with a deadline, so that slow clients cost a few threads."""

from __future__ import annotations

import socket
import threading
from contextlib import suppress
from socketserver import ThreadingMixIn
from typing import Any
from wsgiref.simple_server import WSGIRequestHandler, WSGIServer, make_server

from prometheus_client import CollectorRegistry, make_wsgi_app

from tasks.http.hosts import LOOPBACK, is_loopback_name

REQUESTS = 16
"""At the same time; further connections are closed."""
REQUEST_S = 15.0
"""From the connection to the end of the reply; a scrape asks the store for at most a few seconds."""


class MetricsServer(ThreadingMixIn, WSGIServer):
    """A thread for each of at most `REQUESTS` requests."""

    daemon_threads = True

    def __init__(self, *arguments: Any) -> None:
        self._free = threading.BoundedSemaphore(REQUESTS)
        super().__init__(*arguments)

    def process_request(self, request: Any, client_address: Any) -> None:
        if not self._free.acquire(blocking=False):
            self.shutdown_request(request)
            return
        super().process_request(request, client_address)

    def process_request_thread(self, request: Any, client_address: Any) -> None:
        deadline = threading.Timer(REQUEST_S, _end, (request,))
        deadline.daemon = True
        deadline.start()
        try:
            super().process_request_thread(request, client_address)
        finally:
            deadline.cancel()
            self._free.release()

    def handle_error(self, request: Any, client_address: Any) -> None:
        """A client that has gone away is no news."""


class _Handler(WSGIRequestHandler):
    def log_message(self, format: str, *arguments: Any) -> None:
        """Requests are not logged."""


class _IPv6Server(MetricsServer):
    address_family = socket.AF_INET6


def start_metrics_server(host: str, port: int, registry: CollectorRegistry) -> int:
    """Serve the registry in a thread; returns the port.  On a loopback address only loopback names are answered.

    Raises: OSError when the address is taken or is none.
    """
    app = make_wsgi_app(registry)

    def guarded(environ: dict[str, Any], start_response: Any) -> Any:
        if host in LOOPBACK and not is_loopback_name(environ.get("HTTP_HOST", "")):
            start_response("421 Misdirected Request", [("Content-Type", "text/plain")])
            return [b"this server is not the host of that name\n"]
        return app(environ, start_response)

    kind = _IPv6Server if ":" in host else MetricsServer
    server = make_server(host, port, guarded, kind, _Handler)
    threading.Thread(target=server.serve_forever, name="metrics", daemon=True).start()
    return int(server.server_port)


def _end(connection: socket.socket) -> None:
    with suppress(OSError):
        connection.shutdown(socket.SHUT_RDWR)
