"""An HTTP server of a test, in a thread of this process."""

from __future__ import annotations

import socket
import socketserver
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


class _Server(socketserver.ThreadingTCPServer):
    daemon_threads, block_on_close, allow_reuse_address = True, False, True

    def handle_error(self, *_: object) -> None:
        """The client has gone away."""


class _UnixServer(_Server):
    address_family = socket.AF_UNIX


@contextmanager
def http_server(handler: type[socketserver.BaseRequestHandler], path: Path | None = None) -> Iterator[str]:
    """Serve while the block runs, without a line for each request; gives the server's address.

    It is a free port of this host, or the Unix socket of a path.
    """

    class Quiet(handler):  # type: ignore[misc, valid-type]
        def log_message(self, *_: object) -> None:
            return

    kind, address = (_UnixServer, str(path)) if path else (_Server, ("127.0.0.1", 0))
    with kind(address, Quiet) as server:  # type: ignore[arg-type]
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02})
        thread.start()
        try:
            yield f"unix:{path}" if path else f"http://127.0.0.1:{server.server_address[1]}"
        finally:
            server.shutdown()
            thread.join()
