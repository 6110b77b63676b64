"""An HTTP server of a test, in a thread of this process."""

from __future__ import annotations

import socketserver
import threading
from collections.abc import Iterator
from contextlib import contextmanager


class _Server(socketserver.ThreadingTCPServer):
    daemon_threads, block_on_close, allow_reuse_address = True, False, True

    def handle_error(self, *_: object) -> None:
        """The client has gone away."""


@contextmanager
def http_server(handler: type[socketserver.BaseRequestHandler]) -> Iterator[str]:
    """Serve at a free port while the block runs, without a line for each request; gives the server's address."""

    class Quiet(handler):  # type: ignore[misc, valid-type]
        def log_message(self, *_: object) -> None:
            return

    with _Server(("127.0.0.1", 0), Quiet) as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02})
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.server_address[1]}"
        finally:
            server.shutdown()
            thread.join()
