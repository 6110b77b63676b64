"""python -m workers.embedded.target --model FOLDER --port PORT --labels FOLDER: serve a model on this CPU."""

from __future__ import annotations

import argparse
import logging
import os
import signal
import socket
import sys
import threading
from contextlib import nullcontext
from pathlib import Path

import torch
import uvicorn

from tasks.common.files import keep_private
from tasks.gpu.prompt import answer_ends, load_tokenizer
from workers.embedded.endpoint import BearerKey
from workers.embedded.target.app import Service, build_target_app
from workers.embedded.target.attention import PrefixCache
from workers.embedded.target.decoder import Decoder
from workers.embedded.target.engine import Engine
from workers.embedded.target.protocol import Limits
from workers.embedded.target.sampling import Grammars, load_processor
from workers.sglang.engines import KEY_VARIABLE
from workers.sglang.identity import weights_fingerprint

log = logging.getLogger(__name__)

DRAIN_S = 5  # for answers in progress after SIGTERM


def main(arguments: list[str]) -> int:
    """Load the model, serve until SIGTERM or SIGINT, stop the engine. Returns the exit status."""
    keep_private()
    options = _options(arguments)
    dtype = _dtype(options.dtype)
    decoder = Decoder(options.model, dtype)
    processor = load_processor(options.processor) if options.processor else None
    tokenizer = load_tokenizer(str(options.model))
    ends = answer_ends(tokenizer)
    loaded = (processor.sha256, processor.module) if processor else ()
    limits = Limits(decoder.context, decoder.vocabulary, ends, options.labels, *loaded)
    rows = decoder.calibrate(options.rows)
    if rows != options.rows:
        log.warning("this machine's kernels mix rows: answering one request at a time")
    prompts = PrefixCache(options.cache_mb * 2**20)
    engine = Engine(decoder, rows, prompts, processor, lambda ids: str(tokenizer.decode(list(ids))))
    weights, dtype_name = weights_fingerprint(options.model), str(dtype).removeprefix("torch.")
    model = {"path": str(options.model), "weights": weights, "dtype": dtype_name}
    with options.requests_log.open("a") if options.requests_log else nullcontext() as requests_log:
        grammars = Grammars(tokenizer, decoder.vocabulary, ends)
        return _serve(Service(engine, grammars, limits, tokenizer, model, requests_log), options)


def _serve(service: Service, options: argparse.Namespace) -> int:
    """HTTP in a thread of its own and the engine in this, the main one, until a signal; returns the exit status."""
    app = BearerKey(build_target_app(service), options.api_key)
    config = uvicorn.Config(
        app, port=options.port or 0, log_level="warning", access_log=False, timeout_graceful_shutdown=2 * DRAIN_S
    )
    server = uvicorn.Server(config)
    listeners = None
    if options.uds:  # this user alone may open it; uvicorn's own socket is open to all
        listeners = [socket.socket(socket.AF_UNIX)]
        listeners[0].bind(str(options.uds))

    def stop(*_: object) -> None:
        """Take no more requests; those in progress have `DRAIN_S` seconds, and then HTTP 503."""
        server.should_exit = True
        end = threading.Timer(DRAIN_S, service.engine.close)
        end.daemon = True
        end.start()

    def serve_http() -> None:
        try:
            server.run(listeners)
        finally:
            service.engine.close()

    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, stop)
    thread = threading.Thread(target=serve_http, name="http")
    thread.start()
    try:
        service.engine.run()
    finally:
        server.should_exit = True
        thread.join()
    return 0 if server.started else 1  # uvicorn has logged why


def _options(arguments: list[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m workers.embedded.target", description=__doc__)
    parser.add_argument("--model", type=Path, required=True, help="folder with config, safetensors and tokenizer")
    address = parser.add_mutually_exclusive_group(required=True)
    address.add_argument("--port", type=int, help="of 127.0.0.1")
    address.add_argument("--uds", type=Path, help="path of a Unix socket, in place of a host and a port")
    parser.add_argument("--labels", type=Path, required=True, help="folder with <clustering>.npy")
    parser.add_argument("--dtype", choices=("auto", "float32", "bfloat16"), default="auto")
    parser.add_argument("--processor", type=Path, help="a generated processor.py, for requests that name it")
    parser.add_argument("--rows", type=int, default=16, help="answers decoded at once")
    parser.add_argument("--cache-mb", type=int, default=1024, help="limit of the computed prompts that are kept")
    parser.add_argument("--requests-log", type=Path, help="file that gets one line for each answer")
    parser.add_argument(
        "--api-key",
        default=os.environ.get(KEY_VARIABLE),
        help=f"the bearer token of clients (default: {KEY_VARIABLE}, which other users cannot read)",
    )
    options = parser.parse_args(arguments)
    if not options.api_key:
        parser.error(f"neither --api-key nor {KEY_VARIABLE} is set: it is the key that clients send")
    return options


def _dtype(name: str) -> torch.dtype:
    """bfloat16 is faster only where the processor multiplies it in hardware."""
    if name == "auto":
        capabilities = torch.cpu.get_capabilities()
        in_hardware = capabilities.get("avx512_bf16") or capabilities.get("amx_bf16")
        name = "bfloat16" if in_hardware else "float32"
    return torch.bfloat16 if name == "bfloat16" else torch.float32


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
