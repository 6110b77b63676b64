"""python -m workers.embedded.endpoint: serve until SIGTERM.

The key that clients must send is in WHETSTONE_ENDPOINT_KEY, or in the file that WHETSTONE_ENDPOINT_KEY_FILE names.
"""

from __future__ import annotations

import argparse
import os
import socket
import time
from pathlib import Path

import uvicorn

from tasks.http.address import unix_url
from tasks.http.hosts import LOOPBACK
from tasks.private import keep_private
from tasks.secret import SecretError, secret
from workers.embedded.endpoint import ENDPOINT_CONTROL_VARIABLE, ENDPOINT_KEY_VARIABLE
from workers.embedded.endpoint.app import EndpointState, build_endpoint_app
from workers.embedded.endpoint.calls import CallLog, TokenBucket
from workers.embedded.endpoint.faults import Faults, parse_faults
from workers.embedded.endpoint.rules import all_rules
from workers.embedded.http_guard import RequestGuard, server_config


def main() -> None:
    keep_private()
    parser = _parser()
    options = parser.parse_args()
    try:
        key = secret(ENDPOINT_KEY_VARIABLE)
    except SecretError as error:
        parser.error(str(error))
    if not key:
        name = ENDPOINT_KEY_VARIABLE
        parser.error(f"neither {name} nor {name}_FILE is set: it is the key that clients send")
    calls = CallLog(options.calls_log)
    buckets = [TokenBucket(limit, time.monotonic) for limit in (options.rpm, options.tpm)]
    state = EndpointState(all_rules(), Faults(options.faults), calls, *buckets)
    control = os.environ.get(ENDPOINT_CONTROL_VARIABLE) == "1"
    listener = (
        socket.create_server((options.host, options.port)) if options.fd is None else socket.socket(fileno=options.fd)
    )
    address, is_local = _address(listener)
    config = server_config(RequestGuard(build_endpoint_app(state, control), key, is_local), timeout_graceful_shutdown=1)
    print(f"listening on {address}", flush=True)
    try:
        uvicorn.Server(config).run(sockets=[listener])
    finally:
        calls.close()


def _address(listener: socket.socket) -> tuple[str, bool]:
    """What a client calls the server, and whether it is called by loopback names alone."""
    if listener.family == socket.AF_UNIX:
        return unix_url(listener.getsockname()), True
    host, port = listener.getsockname()[:2]
    return f"http://{host}:{port}/v1", host in LOOPBACK


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser("python -m workers.embedded.endpoint", description=__doc__)
    parser.add_argument("--host", default="127.0.0.1")
    parser.add_argument("--port", type=int, default=0, help="0, the default, uses a free one and prints it")
    parser.add_argument("--fd", type=int, help="the descriptor of a listening socket, in place of a host and a port")
    parser.add_argument("--faults", type=_faults, default=[], metavar="SPEC", help="SCHEMA:KIND:TIMES, ...")
    parser.add_argument("--calls-log", type=Path, metavar="FILE", help="append a JSON line for each answered call")
    parser.add_argument("--rpm", type=_positive, default=100_000, help="requests a minute")
    parser.add_argument("--tpm", type=_positive, default=100_000_000, help="tokens a minute")
    return parser


def _faults(spec: str) -> object:
    try:
        return parse_faults(spec, all_rules())
    except ValueError as error:
        raise argparse.ArgumentTypeError(str(error)) from error


def _positive(text: str) -> int:
    value = int(text)
    if value < 1:
        raise argparse.ArgumentTypeError(f"{text} is not positive")
    return value


if __name__ == "__main__":
    main()
