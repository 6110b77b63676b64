"""The HTTP routes of SGLang that a client of /generate uses, over the engine."""

from __future__ import annotations

import asyncio
import json
import time
from contextlib import suppress
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path
from typing import Any, TextIO

import torch
from fastapi import FastAPI
from fastapi import Request as HttpRequest
from fastapi.responses import JSONResponse, PlainTextResponse, Response

from workers.embedded.target.attention import PrefixCache
from workers.embedded.target.engine import Engine, EngineStopped, PendingRequest
from workers.embedded.target.protocol import (
    BadRequest,
    Finished,
    GenerateBody,
    GenerationRequest,
    Limits,
    SamplingParams,
    check_grammar,
    make_reply,
    make_request,
    parse_body,
)
from workers.embedded.target.sampling import CompiledGrammar, GrammarRefused, Grammars

VERSION = "embedded-2"  # raised by every change of this server that changes answers
CLIENT_CLOSED_REQUEST = 499


@dataclass(frozen=True)
class Service:
    """What the routes need.

    `tokenizer` is transformers' own; `weights` is a fingerprint of the model's files; `requests_log` gets a line for
    each answer.
    """

    engine: Engine
    grammars: Grammars
    prompts: PrefixCache
    limits: Limits
    tokenizer: Any
    model: Path
    weights: str
    dtype: str
    rows: int
    requests_log: TextIO | None


def build_target_app(service: Service) -> FastAPI:
    """The application; the engine is already running."""
    app = FastAPI(title="Whetstone embedded target", docs_url=None, redoc_url=None, openapi_url=None)

    @app.get("/health")
    async def health() -> Response:
        return PlainTextResponse("", 200 if service.engine.alive else 503)

    @app.get("/model_info")
    async def model_info() -> dict[str, Any]:
        path = str(service.model)
        return {"model_path": path, "tokenizer_path": path, "weights": service.weights, "is_generation": True}

    @app.get("/server_info")
    async def server_info() -> dict[str, Any]:
        running, waiting = service.engine.in_flight
        return {
            "engine": "embedded",
            "version": VERSION,
            "torch": torch.__version__,
            "model_path": str(service.model),
            "dtype": service.dtype,
            "grammar_backend": f"llguidance {metadata.version('llguidance')}",
            "max_running_requests": service.rows,
            "context_length": service.limits.context,
            "num_running_reqs": running,
            "num_waiting_reqs": waiting,
            "cached_prompts": len(service.prompts),
            "cached_bytes": service.prompts.bytes,
        }

    @app.post("/flush_cache")
    async def flush_cache() -> Response:
        service.prompts.flush()
        return PlainTextResponse("Cache flushed.\n")

    @app.post("/generate")
    async def generate(http: HttpRequest) -> Response:
        try:
            body = parse_body(await http.body())
            grammar = await _compile_grammar(service, body.sampling_params)
            pending = [service.engine.submit(request) for request in _read_requests(service, body, grammar)]
        except (BadRequest, GrammarRefused) as error:
            return _error(400, str(error))
        except EngineStopped as error:
            return _error(503, str(error))
        return await _answer(service, http, pending, body.is_list)

    return app


async def _compile_grammar(service: Service, sampling: SamplingParams) -> CompiledGrammar | None:
    """In a thread, so that other requests go on meanwhile."""
    check_grammar(sampling)
    return await asyncio.to_thread(service.grammars.compile, *sampling.grammar) if sampling.grammar else None


def _read_requests(service: Service, body: GenerateBody, grammar: CompiledGrammar | None) -> list[GenerationRequest]:
    """All requests of a body."""
    if (body.text is None) == (body.input_ids is None):
        raise BadRequest("give either text or input_ids")
    prompts: list[Any]
    if body.text is not None:
        texts = body.text if isinstance(body.text, list) else [body.text]
        prompts = [service.tokenizer(text)["input_ids"] for text in texts]
    else:
        prompts = list(body.input_ids or ()) if body.is_list else [body.input_ids]
    rids = body.rid if isinstance(body.rid, list) else [body.rid] * len(prompts)
    if not prompts or len(rids) != len(prompts):
        raise BadRequest(f"{len(prompts)} prompts and {len(rids)} request ids")
    return [make_request(body, ids, rid, service.limits, grammar) for ids, rid in zip(prompts, rids, strict=True)]


async def _answer(service: Service, http: HttpRequest, pending: list[PendingRequest], is_list: bool) -> Response:
    start = time.perf_counter()
    answers = asyncio.gather(*(asyncio.wrap_future(one.done) for one in pending))
    disconnected = asyncio.create_task(_wait_for_disconnect(http))
    await asyncio.wait((answers, disconnected), return_when=asyncio.FIRST_COMPLETED)
    if not answers.done():
        # The client has disconnected: free the rows for other requests.
        for one in pending:
            one.abort.set()
        await answers
        return Response(status_code=CLIENT_CLOSED_REQUEST)
    disconnected.cancel()
    try:
        results = answers.result()
    except EngineStopped as error:
        return _error(503, str(error))
    except GrammarRefused as error:
        return _error(400, str(error))
    seconds = time.perf_counter() - start
    replies = []
    for one, finished in zip(pending, results, strict=True):
        _log_answer(service.requests_log, one.request, finished)
        text = finished.text(lambda ids: str(service.tokenizer.decode(ids, skip_special_tokens=True)))
        replies.append(make_reply(one.request, finished, text, seconds))
    return JSONResponse(replies if is_list else replies[0])


async def _wait_for_disconnect(http: HttpRequest) -> None:
    """Return when the client has closed the connection. The body is read, so nothing else can arrive."""
    with suppress(asyncio.CancelledError):
        while (await http.receive())["type"] != "http.disconnect":
            pass


def _log_answer(log: TextIO | None, request: GenerationRequest, finished: Finished) -> None:
    if log is not None:
        tokens = len(finished.output_ids)
        line = {"rid": request.rid, "sha256": request.digest, "completion_tokens": tokens, "at": time.time()}
        log.write(json.dumps(line) + "\n")
        log.flush()


def _error(status: int, message: str) -> Response:
    return JSONResponse({"error": {"message": message}}, status)
