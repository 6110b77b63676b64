"""The endpoint's HTTP: a chat completion whose content is the reply of a rule."""

from __future__ import annotations

import json
import time
from collections.abc import Mapping
from typing import Any

from fastapi import FastAPI, Request
from fastapi.responses import JSONResponse

from tasks.common.text import estimate_tokens
from tasks.openai.endpoint import NO_RULE, RULES_FINGERPRINT
from workers.embedded.endpoint.rules import Rule

MODEL = "whetstone-rules"
FINGERPRINT = f"{RULES_FINGERPRINT}-2"  # the version of the rules, which decides the answer of a prompt


class NoRule(Exception):
    """No rule answers the schema of a request."""


def build_endpoint_app(rules: Mapping[str, Rule]) -> FastAPI:
    app = FastAPI(title="Whetstone's embedded OpenAI endpoint", openapi_url=None)

    @app.get("/health")
    async def health() -> dict[str, str]:
        return {"status": "ok"}

    @app.get("/v1/models")
    async def models() -> dict[str, Any]:
        return {
            "object": "list",
            "data": [{"id": MODEL, "object": "model", "created": 0, "owned_by": "whetstone"}],
        }

    @app.post("/v1/chat/completions")
    async def chat_completions(request: Request) -> JSONResponse:
        try:
            return JSONResponse(complete(json.loads(await request.body()), rules))
        except NoRule as error:
            return JSONResponse(error_body(str(error), NO_RULE), 400)
        except (ValueError, LookupError, TypeError, AttributeError) as error:
            return JSONResponse(error_body(f"the rules cannot read this request: {error!r}"), 400)

    return app


def complete(request: dict[str, Any], rules: Mapping[str, Rule]) -> dict[str, Any]:
    """The completion for a request with a JSON schema."""
    name = request["response_format"]["json_schema"]["name"]
    if name not in rules:
        raise NoRule(f"no rule answers the schema {name!r}; there are {sorted(rules)}")
    system, user = ("\n".join(m["content"] for m in request["messages"] if m["role"] == r) for r in ("system", "user"))
    text = json.dumps(rules[name](system, user), ensure_ascii=False)
    prompt, written = estimate_tokens(system) + estimate_tokens(user), estimate_tokens(text)
    return {
        "id": "chatcmpl-rules",
        "object": "chat.completion",
        "created": int(time.time()),
        "model": request["model"],
        "system_fingerprint": FINGERPRINT,
        "choices": [
            {"index": 0, "finish_reason": "stop", "logprobs": None, "message": {"role": "assistant", "content": text}}
        ],
        "usage": {"prompt_tokens": prompt, "completion_tokens": written, "total_tokens": prompt + written},
    }


def error_body(message: str, code: str | None = None) -> dict[str, Any]:
    """OpenAI's form of an error."""
    return {"error": {"message": message, "type": "invalid_request_error", "param": None, "code": code}}
