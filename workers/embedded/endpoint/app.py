"""The HTTP routes: limits, requested faults, the reply of a rule.  workers/embedded/http_guard.py asks for the key."""

from __future__ import annotations

import asyncio
import dataclasses
import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from fastapi import FastAPI, Request
from fastapi.responses import JSONResponse

from tasks.openai.provider import CONTEXT_EXCEEDED, NO_RULE, estimate_tokens
from tasks.openai.schema import mismatch
from workers.embedded.endpoint import chat, faults
from workers.embedded.endpoint.calls import CallLog, EndpointCall, TokenBucket
from workers.embedded.endpoint.chat import ApiError, ChatRequest
from workers.embedded.endpoint.faults import Fault, Faults, parse_faults
from workers.embedded.endpoint.rules import Rule
from workers.embedded.http_guard import parse_body_json

CLIENT_CLOSED_REQUEST = 499


@dataclass
class EndpointState:
    """The state of the endpoint; one event loop uses it, so there are no locks."""

    rules: Mapping[str, Rule]
    faults: Faults
    calls: CallLog
    requests: TokenBucket
    tokens: TokenBucket

    def limits(self) -> dict[str, str]:
        return {**self.requests.headers("requests"), **self.tokens.headers("tokens")}


def build_endpoint_app(state: EndpointState, control: bool) -> FastAPI:
    """The application; it changes `state`.  With `control` its faults and calls have routes too, for tests."""
    app = FastAPI(title="Whetstone's embedded OpenAI endpoint", openapi_url=None)
    if control:
        _add_control(app, state)

    @app.get("/health")
    async def health() -> dict[str, str]:
        return {"status": "ok"}

    @app.get("/v1/models")
    async def models() -> dict[str, Any]:
        return {
            "object": "list",
            "data": [{"id": chat.MODEL, "object": "model", "created": 0, "owned_by": "whetstone"}],
        }

    @app.post("/v1/chat/completions")
    async def chat_completions(request: Request) -> JSONResponse:
        return await _answer(state, request)

    return app


def _add_control(app: FastAPI, state: EndpointState) -> None:
    @app.get("/_calls")
    async def calls() -> dict[str, Any]:
        return state.calls.summary()

    @app.post("/_faults")
    async def set_faults(request: Request) -> JSONResponse:
        try:
            faults = parse_body_json(await request.body())["faults"]
            state.faults = Faults(parse_faults(str(faults), state.rules))
        except (ValueError, KeyError, TypeError) as error:
            return JSONResponse({"error": str(error)}, 400)
        return JSONResponse({"status": "ok"})


async def _answer(state: EndpointState, request: Request) -> JSONResponse:
    call = EndpointCall(request.headers.get("idempotency-key", ""), "", "", 200, "")
    try:
        chat_request = chat.read_request(await _json(request))
        call = dataclasses.replace(call, schema=chat_request.schema_name, messages=chat_request.digest)
        rule = state.rules.get(chat_request.schema_name)
        if rule is None:
            message = f"no rule answers the schema {chat_request.schema_name!r}; there are {sorted(state.rules)}"
            raise ApiError(400, message, "invalid_request_error", NO_RULE)
        _charge(state, chat_request)
        fault = state.faults.take(chat_request.schema_name)
        if fault is not None:
            call = dataclasses.replace(call, fault=fault.kind)
            await _fail(fault)
        body = _complete(chat_request, rule, fault)
        usage = body["usage"]
        call = dataclasses.replace(
            call, prompt_tokens=usage["prompt_tokens"], completion_tokens=usage["completion_tokens"]
        )
    except ApiError as error:
        state.calls.add(dataclasses.replace(call, status=error.status))
        return JSONResponse(error.body, error.status, {**state.limits(), **error.headers})
    if await request.is_disconnected():
        # The client has closed the connection, so this call does not count as answered.
        state.calls.add(dataclasses.replace(call, status=CLIENT_CLOSED_REQUEST))
        return JSONResponse({}, CLIENT_CLOSED_REQUEST)
    state.calls.add(call)
    return JSONResponse(body, 200, state.limits())


async def _json(request: Request) -> object:
    try:
        return parse_body_json(await request.body())
    except ValueError as error:
        raise chat.bad_request(f"the body is not JSON: {error}") from error


def _charge(state: EndpointState, request: ChatRequest) -> None:
    cost = request.prompt_tokens + (request.max_completion_tokens or 0)
    wait = max(state.requests.wait(1), state.tokens.wait(cost))
    if wait > 0:
        raise chat.too_many("Rate limit reached for requests or tokens.", wait)
    state.requests.take(1)
    state.tokens.take(cost)


async def _fail(fault: Fault) -> None:
    if fault.kind == "hang":
        await asyncio.sleep(fault.seconds)
    elif fault.kind == "rate_limit":
        raise chat.too_many("Rate limit reached (a requested fault).", fault.seconds)
    elif fault.kind == "quota":
        raise ApiError(429, "You exceeded your current quota.", "insufficient_quota", "insufficient_quota")
    elif fault.kind == "500":
        raise ApiError(500, "The server had an error (a requested fault).", "server_error")
    elif fault.kind == "context":
        raise ApiError(400, "The prompt is too long (a requested fault).", "invalid_request_error", CONTEXT_EXCEEDED)


def _complete(request: ChatRequest, rule: Rule, fault: Fault | None) -> dict[str, Any]:
    try:
        reply = rule(request.system, request.user)
    except (ValueError, KeyError, TypeError) as error:
        raise chat.bad_request(f"the rule cannot read this prompt: {error}") from error
    reason = mismatch(reply, request.schema)
    if reason:
        raise chat.bad_request(f"the rule's reply does not fit the requested schema: {reason}")
    ordered = {name: reply[name] for name in request.schema["properties"]}
    output = faults.apply_fault(ordered, request, fault)
    limit = None if fault and fault.kind == "oversized" else request.max_completion_tokens
    if limit is not None and estimate_tokens(output.text) > limit:
        output = dataclasses.replace(output, text=output.text[: 2 * limit], finish_reason="length")
    return chat.completion(request, output.text, output.finish_reason, output.refusal, int(time.time()))
