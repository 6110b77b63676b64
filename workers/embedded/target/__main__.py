"""python -m workers.embedded.target --model FOLDER --port PORT --labels FOLDER: serve a model on this CPU.

It answers the routes of SGLang that a client of /generate uses.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import logging
import os
import signal
import socket
import sys
import threading
import time
from contextlib import nullcontext, suppress
from dataclasses import dataclass
from functools import partial
from importlib import metadata
from pathlib import Path
from typing import IO, Any

import torch
import uvicorn
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, PlainTextResponse, Response
from starlette.routing import Route

from tasks.common.files import keep_private
from tasks.gpu.prompt import answer_ends, load_tokenizer
from workers.embedded.endpoint import BearerKey
from workers.embedded.target.attention import PrefixCache
from workers.embedded.target.decoder import Decoder
from workers.embedded.target.engine import Engine, EngineStopped
from workers.embedded.target.protocol import Served, make_reply, make_request, parse_body
from workers.embedded.target.sampling import BadRequest, Grammars, load_processor
from workers.sglang.engines import KEY_VARIABLE
from workers.sglang.identity import weights_fingerprint

log = logging.getLogger(__name__)

DRAIN_S = 5  # for answers in progress after SIGTERM
VERSION = "embedded-2"  # raised by every change of this server that changes answers
CLIENT_CLOSED_REQUEST = 499


@dataclass(frozen=True)
class Service:
    """What the routes need: `model` describes the model in reports; `requests_log` gets a line for each answer."""

    engine: Engine
    grammars: Grammars
    served: Served
    tokenizer: Any
    model: dict[str, str]
    requests_log: IO[bytes] | None


def build_target_app(service: Service) -> Starlette:
    """The application; the engine is already running."""
    engine, model = service.engine, service.model

    async def health(_: Request) -> Response:
        return PlainTextResponse("", 200 if engine.alive else 503)

    async def model_info(_: Request) -> Response:
        path, weights = model["path"], model["weights"]
        return JSONResponse({"model_path": path, "tokenizer_path": path, "weights": weights, "is_generation": True})

    async def server_info(_: Request) -> Response:
        running, waiting = engine.in_flight
        about = {
            "engine": "embedded",
            "version": VERSION,
            "torch": torch.__version__,
            "model_path": model["path"],
            "dtype": model["dtype"],
            "grammar_backend": f"llguidance {metadata.version('llguidance')}",
            "max_running_requests": engine.rows,
            "context_length": service.served.context,
            "num_running_reqs": running,
            "num_waiting_reqs": waiting,
        }
        return JSONResponse(about)

    async def generate(http: Request) -> Response:
        try:
            return await _answer(service, http)
        except BadRequest as error:
            return JSONResponse({"error": {"message": str(error)}}, 400)
        except EngineStopped as error:
            return JSONResponse({"error": {"message": str(error)}}, 503)

    reports = [Route(f"/{report.__name__}", report) for report in (health, model_info, server_info)]
    return Starlette(routes=[*reports, Route("/generate", generate, methods=["POST"])])


async def _answer(service: Service, http: Request) -> Response:
    body, grammar = parse_body(await http.body()), None
    if (wanted := body.sampling_params.grammar) is not None:  # in a thread, so that other requests go on meanwhile
        grammar = await asyncio.to_thread(service.grammars.compile, *wanted)
    request = make_request(body, service.served, grammar)
    service.engine.submit(request)
    answer = asyncio.wrap_future(request.done)
    disconnected = asyncio.create_task(_wait_for_disconnect(http))
    await asyncio.wait((answer, disconnected), return_when=asyncio.FIRST_COMPLETED)
    if not answer.done():  # the client has disconnected: free the row for other requests
        request.abort.set()
        await answer
        return Response(status_code=CLIENT_CLOSED_REQUEST)
    disconnected.cancel()
    finished = answer.result()
    if service.requests_log is not None:
        tokens = len(finished.output_ids)
        line = {"sha256": request.digest, "completion_tokens": tokens, "at": time.time()}
        with suppress(OSError):  # a full disk costs no answer
            service.requests_log.write(f"{json.dumps(line)}\n".encode())
    decode = partial(service.tokenizer.decode, skip_special_tokens=True)
    return JSONResponse(make_reply(request, finished, decode))


async def _wait_for_disconnect(http: Request) -> None:
    """The body is read, so nothing else can arrive."""
    with suppress(asyncio.CancelledError):
        while (await http.receive())["type"] != "http.disconnect":
            pass


def main(arguments: list[str]) -> int:
    """Load the model, serve until SIGTERM or SIGINT, stop the engine. Returns the exit status."""
    keep_private()
    options = _options(arguments)
    if not (key := os.environ.get(KEY_VARIABLE)):  # not an argument, which other users can read
        sys.exit(f"{KEY_VARIABLE} is not set: it is the key that clients send")
    dtype = _dtype(options.dtype)
    decoder, tokenizer = Decoder(options.model, dtype), load_tokenizer(str(options.model))
    ends = answer_ends(tokenizer)
    processor = load_processor(options.processor) if options.processor else None
    served = Served(decoder.context, decoder.vocabulary, ends, options.labels, processor)
    rows = decoder.calibrate(options.rows)
    if rows != options.rows:
        log.warning("this machine's kernels mix rows: answering one request at a time")
    engine = Engine(decoder, rows, PrefixCache(options.cache_mb * 2**20), lambda ids: str(tokenizer.decode(list(ids))))
    weights, dtype_name = weights_fingerprint(options.model), str(dtype).removeprefix("torch.")
    model = {"path": str(options.model), "weights": weights, "dtype": dtype_name}
    with options.requests_log.open("ab", buffering=0) if options.requests_log else nullcontext() as requests_log:
        grammars = Grammars(tokenizer, decoder.vocabulary, ends)
        return _serve(Service(engine, grammars, served, tokenizer, model, requests_log), key, options)


def _serve(service: Service, key: str, options: argparse.Namespace) -> int:
    """HTTP in a thread of its own and the engine in this, the main one, until a signal."""
    app, engine = BearerKey(build_target_app(service), key), service.engine
    server = uvicorn.Server(
        uvicorn.Config(app, log_level="warning", access_log=False, timeout_graceful_shutdown=2 * DRAIN_S)
    )
    if options.uds:  # this user alone may open it; uvicorn's own socket is open to all
        listener = socket.socket(socket.AF_UNIX)
        listener.bind(str(options.uds))
    else:
        listener = socket.create_server(("127.0.0.1", options.port))

    def stop(*_: object) -> None:
        """Take no more requests; those in progress have `DRAIN_S` seconds, and then HTTP 503."""
        server.should_exit = True
        end = threading.Timer(DRAIN_S, engine.close)
        end.daemon = True
        end.start()

    def serve_http() -> None:
        try:
            server.run([listener])
        finally:
            engine.close()

    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, stop)
    thread = threading.Thread(target=serve_http, name="http")
    thread.start()
    try:
        engine.run()
    finally:
        server.should_exit = True
        thread.join()
    return 0


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
    return parser.parse_args(arguments)


def _dtype(name: str) -> torch.dtype:
    """bfloat16 is faster only where the processor multiplies it in hardware."""
    has = torch.cpu.get_capabilities()
    in_hardware = has.get("avx512_bf16") or has.get("amx_bf16")
    return torch.bfloat16 if name == "bfloat16" or (name == "auto" and in_hardware) else torch.float32


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
