"""SGLang's HTTP surface over the engine: as much of it as a client of /generate meets."""

from __future__ import annotations

import asyncio
import json
import secrets
import time
from collections.abc import Awaitable, Callable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TextIO

from fastapi import FastAPI
from fastapi import Request as Call
from fastapi.responses import JSONResponse, PlainTextResponse, Response

from workers.embedded.target.engine import Engine, EngineStopped, Job
from workers.embedded.target.prefix_cache import Prompts
from workers.embedded.target.protocol import Body, Finished, Limits, Refused, Request, parse, reply, request

OPEN = ("/health",)  # answered without a key


@dataclass(frozen=True)
class Service:
    """All that the routes need. `tokenizer` is transformers' own; `answered` gets a line for each answer."""

    engine: Engine
    prompts: Prompts
    limits: Limits
    tokenizer: Any
    model: Path
    dtype: str
    rows: int
    api_key: str | None
    answered: TextIO | None


def build(service: Service) -> FastAPI:
    """The application; the engine is already running."""
    app = FastAPI(title="Whetstone embedded target", docs_url=None, redoc_url=None, openapi_url=None)

    @app.middleware("http")
    async def authorize(call: Call, go_on: Callable[[Call], Awaitable[Response]]) -> Response:
        expected = f"Bearer {service.api_key}".encode()
        given = call.headers.get("authorization", "").encode()
        if service.api_key and call.url.path not in OPEN and not secrets.compare_digest(given, expected):
            return _error(401, "a valid API key is needed")
        return await go_on(call)

    @app.get("/health")
    async def health() -> Response:
        return PlainTextResponse("", 200 if service.engine.alive else 503)

    @app.get("/health_generate")
    async def health_generate() -> Response:
        body = parse(b'{"sampling_params": {"max_new_tokens": 1, "temperature": 0}}')
        try:
            await _finished(service.engine.submit(request(body, [0], None, service.limits)))
        except EngineStopped:
            return PlainTextResponse("", 503)
        return PlainTextResponse("")

    @app.get("/model_info")
    async def model_info() -> dict[str, Any]:
        path = str(service.model)
        return {"model_path": path, "tokenizer_path": path, "is_generation": True}

    @app.get("/server_info")
    async def server_info() -> dict[str, Any]:
        running, waiting = service.engine.in_flight
        return {
            "engine": "embedded",
            "model_path": str(service.model),
            "dtype": service.dtype,
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

    @app.post("/abort_request")
    async def abort_request(call: Call) -> Response:
        try:
            rid = json.loads(await call.body())["rid"]
        except (ValueError, TypeError, KeyError):
            return _error(400, "abort_request needs an object with rid")
        service.engine.abort(str(rid))
        return PlainTextResponse("")

    @app.post("/generate")
    async def generate(call: Call) -> Response:
        try:
            body = parse(await call.body())
            asked = _requests(service, body)
            jobs = [service.engine.submit(one) for one in asked]
        except Refused as error:
            return _error(400, str(error))
        except EngineStopped as error:
            return _error(503, str(error))
        return await _answer(service, call, jobs, body.is_list)

    return app


def _requests(service: Service, body: Body) -> list[Request]:
    """All requests of a body. Raises: Refused."""
    if (body.text is None) == (body.input_ids is None):
        raise Refused("give either text or input_ids")
    prompts: list[Any]
    if body.text is not None:
        texts = body.text if isinstance(body.text, list) else [body.text]
        prompts = [service.tokenizer(text)["input_ids"] for text in texts]
    else:
        prompts = list(body.input_ids or ()) if body.is_list else [body.input_ids]
    rids = body.rid if isinstance(body.rid, list) else [body.rid] * len(prompts)
    if not prompts or len(rids) != len(prompts):
        raise Refused(f"{len(prompts)} prompts and {len(rids)} request ids")
    return [request(body, ids, rid, service.limits) for ids, rid in zip(prompts, rids, strict=True)]


async def _answer(service: Service, call: Call, jobs: list[Job], is_list: bool) -> Response:
    start = time.perf_counter()
    answers = asyncio.gather(*(_finished(job) for job in jobs))
    gone = asyncio.create_task(_gone(call))
    await asyncio.wait((answers, gone), return_when=asyncio.FIRST_COMPLETED)
    if not answers.done():
        # Nobody will read the rest: give the rows to others.
        for job in jobs:
            job.abort.set()
        await answers
        return Response(status_code=499)
    gone.cancel()
    try:
        finished = answers.result()
    except EngineStopped as error:
        return _error(503, str(error))
    seconds = time.perf_counter() - start
    pairs = [(job.request, one) for job, one in zip(jobs, finished, strict=True)]
    for asked, one in pairs:
        _count(service.answered, asked, one)
    replies = [
        reply(asked, one, service.tokenizer.decode(one.text_ids, skip_special_tokens=True), seconds)
        for asked, one in pairs
    ]
    return JSONResponse(replies if is_list else replies[0])


async def _finished(job: Job) -> Finished:
    return await asyncio.wrap_future(job.done)


async def _gone(call: Call) -> None:
    """Return when the client has hung up. The body is read, so hanging up is all that can still arrive."""
    with suppress(asyncio.CancelledError):
        while (await call.receive())["type"] != "http.disconnect":
            pass


def _count(answered: TextIO | None, asked: Request, finished: Finished) -> None:
    if answered is not None:
        tokens = len(finished.output_ids)
        line = {"rid": asked.rid, "sha256": asked.digest, "completion_tokens": tokens, "at": time.time()}
        answered.write(json.dumps(line) + "\n")
        answered.flush()


def _error(status: int, message: str) -> Response:
    return JSONResponse({"error": {"message": message}}, status)
