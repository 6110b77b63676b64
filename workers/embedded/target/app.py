"""The HTTP routes of SGLang that a client of /generate uses, over the engine."""

from __future__ import annotations

import asyncio
import json
import time
from contextlib import suppress
from dataclasses import dataclass
from importlib import metadata
from typing import Any, TextIO

import torch
from fastapi import FastAPI
from fastapi import Request as HttpRequest
from fastapi.responses import JSONResponse, PlainTextResponse, Response

from workers.embedded.target.engine import Engine, EngineStopped
from workers.embedded.target.protocol import BadRequest, Limits, make_reply, make_request, parse_body
from workers.embedded.target.sampling import GrammarRefused, Grammars

VERSION = "embedded-2"  # raised by every change of this server that changes answers
CLIENT_CLOSED_REQUEST = 499


@dataclass(frozen=True)
class Service:
    """What the routes need.

    `tokenizer` is transformers' own; `model` describes the model in the server's reports; `requests_log` gets a line
    for each answer.
    """

    engine: Engine
    grammars: Grammars
    limits: Limits
    tokenizer: Any
    model: dict[str, str]
    requests_log: TextIO | None


def build_target_app(service: Service) -> FastAPI:
    """The application; the engine is already running."""
    app = FastAPI(title="Whetstone embedded target", docs_url=None, redoc_url=None, openapi_url=None)
    engine, path = service.engine, service.model["path"]

    @app.get("/health")
    async def health() -> Response:
        return PlainTextResponse("", 200 if engine.alive else 503)

    @app.get("/model_info")
    async def model_info() -> dict[str, Any]:
        weights = service.model["weights"]
        return {"model_path": path, "tokenizer_path": path, "weights": weights, "is_generation": True}

    @app.get("/server_info")
    async def server_info() -> dict[str, Any]:
        running, waiting = engine.in_flight
        return {
            "engine": "embedded",
            "version": VERSION,
            "torch": torch.__version__,
            "model_path": path,
            "dtype": service.model["dtype"],
            "grammar_backend": f"llguidance {metadata.version('llguidance')}",
            "max_running_requests": engine.rows,
            "context_length": service.limits.context,
            "num_running_reqs": running,
            "num_waiting_reqs": waiting,
        }

    @app.post("/generate")
    async def generate(http: HttpRequest) -> Response:
        try:
            return await _answer(service, http)
        except (BadRequest, GrammarRefused) as error:
            return JSONResponse({"error": {"message": str(error)}}, 400)
        except EngineStopped as error:
            return JSONResponse({"error": {"message": str(error)}}, 503)

    return app


async def _answer(service: Service, http: HttpRequest) -> Response:
    body, grammar = parse_body(await http.body()), None
    if (wanted := body.sampling_params.grammar) is not None:  # in a thread, so that other requests go on meanwhile
        grammar = await asyncio.to_thread(service.grammars.compile, *wanted)
    request = make_request(body, service.limits, grammar)
    start = time.perf_counter()
    pending = service.engine.submit(request)
    answer = asyncio.wrap_future(pending.done)
    disconnected = asyncio.create_task(_wait_for_disconnect(http))
    await asyncio.wait((answer, disconnected), return_when=asyncio.FIRST_COMPLETED)
    if not answer.done():
        # The client has disconnected: free the row for other requests.
        pending.abort.set()
        await answer
        return Response(status_code=CLIENT_CLOSED_REQUEST)
    disconnected.cancel()
    finished, tokenizer = answer.result(), service.tokenizer
    if service.requests_log is not None:
        tokens = len(finished.output_ids)
        line = {"rid": request.rid, "sha256": request.digest, "completion_tokens": tokens, "at": time.time()}
        service.requests_log.write(json.dumps(line) + "\n")
        service.requests_log.flush()
    text = finished.text(lambda ids: str(tokenizer.decode(ids, skip_special_tokens=True)))
    return JSONResponse(make_reply(request, finished, text, time.perf_counter() - start))


async def _wait_for_disconnect(http: HttpRequest) -> None:
    """Return when the client has closed the connection. The body is read, so nothing else can arrive."""
    with suppress(asyncio.CancelledError):
        while (await http.receive())["type"] != "http.disconnect":
            pass
