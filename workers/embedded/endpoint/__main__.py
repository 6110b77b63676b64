"""python -m workers.embedded.endpoint: serve until SIGTERM.

The key that clients must send is in WHETSTONE_ENDPOINT_KEY, or in the file that WHETSTONE_ENDPOINT_KEY_FILE names.
"""

from __future__ import annotations

import argparse
import socket

import uvicorn

from tasks.common.files import keep_private, unix_url
from tasks.common.logs import SecretError, secret
from workers.embedded.endpoint import ENDPOINT_KEY_VARIABLE
from workers.embedded.endpoint.app import build_endpoint_app
from workers.embedded.endpoint.rules import all_rules
from workers.embedded.http_guard import BearerKey


def main() -> None:
    keep_private()
    parser = argparse.ArgumentParser("python -m workers.embedded.endpoint", description=__doc__)
    parser.add_argument("--host", default="127.0.0.1")
    parser.add_argument("--port", type=int, default=0, help="0, the default, uses a free one and prints it")
    parser.add_argument("--fd", type=int, help="the descriptor of a listening socket, in place of a host and a port")
    options = parser.parse_args()
    try:
        key = secret(ENDPOINT_KEY_VARIABLE)
    except SecretError as error:
        parser.error(str(error))
    if not key:
        parser.error(f"neither {ENDPOINT_KEY_VARIABLE} nor {ENDPOINT_KEY_VARIABLE}_FILE is set: clients send this key")
    listener = (
        socket.create_server((options.host, options.port)) if options.fd is None else socket.socket(fileno=options.fd)
    )
    print(f"listening on {_address(listener)}", flush=True)
    app = BearerKey(build_endpoint_app(all_rules()), key)
    config = uvicorn.Config(app, log_level="warning", access_log=False, timeout_graceful_shutdown=1)
    uvicorn.Server(config).run(sockets=[listener])


def _address(listener: socket.socket) -> str:
    """What a client calls the server."""
    if listener.family == socket.AF_UNIX:
        return unix_url(listener.getsockname())
    host, port = listener.getsockname()[:2]
    return f"http://{host}:{port}/v1"


if __name__ == "__main__":
    main()
