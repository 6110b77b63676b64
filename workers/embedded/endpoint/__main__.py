"""python -m workers.embedded.endpoint: serve until SIGTERM."""

from __future__ import annotations

import argparse
import socket
import time
from pathlib import Path

import uvicorn

from tasks.private import keep_private
from workers.embedded.endpoint.app import EndpointState, build_endpoint_app
from workers.embedded.endpoint.calls import CallLog, TokenBucket
from workers.embedded.endpoint.faults import Faults, parse_faults
from workers.embedded.endpoint.rules import all_rules


def main() -> None:
    keep_private()
    options = _parser().parse_args()
    calls = CallLog(options.calls_log)
    buckets = [TokenBucket(limit, time.monotonic) for limit in (options.rpm, options.tpm)]
    state = EndpointState(all_rules(), Faults(options.faults), calls, *buckets)
    listener = (
        socket.create_server((options.host, options.port)) if options.fd is None else socket.socket(fileno=options.fd)
    )
    host, port = listener.getsockname()[:2]
    config = uvicorn.Config(
        build_endpoint_app(state), log_level="warning", access_log=False, timeout_graceful_shutdown=1
    )
    print(f"listening on http://{host}:{port}/v1", flush=True)
    try:
        uvicorn.Server(config).run(sockets=[listener])
    finally:
        calls.close()


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
