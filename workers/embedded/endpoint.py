"""The embedded OpenAI endpoint: chat completions with strict JSON schemas, answered by rules.

    python -m workers.embedded.endpoint     serve until SIGTERM

For farms without an API key.  A call goes the way that it goes to OpenAI; only the content comes from rules, which its
`system_fingerprint` and its model name state.  Clients send the key in WHETSTONE_ENDPOINT_KEY, or in the file that
WHETSTONE_ENDPOINT_KEY_FILE names.
"""

from __future__ import annotations

import argparse
import json
import secrets
import socket
import time
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from tasks.common.files import keep_private, unix_url
from tasks.common.logs import SecretError, secret
from tasks.common.text import estimate_tokens
from tasks.openai.endpoint import RULES_FINGERPRINT

if TYPE_CHECKING:
    from starlette.applications import Starlette
    from starlette.requests import Request
    from starlette.types import ASGIApp, Receive, Scope, Send

    from workers.embedded.rules import Rule

ENDPOINT_KEY_VARIABLE = "WHETSTONE_ENDPOINT_KEY"
MODEL = "whetstone-rules"
FINGERPRINT = f"{RULES_FINGERPRINT}-2"  # the version of the rules, which decides the answer of a prompt
OPEN_PATH = "/health"  # needs no key


class NoRule(Exception):
    """No rule answers the schema of a request."""


class BearerKey:
    """ASGI middleware of the embedded HTTP servers: each request carries the key as its bearer token."""

    def __init__(self, app: ASGIApp, key: str) -> None:
        self._app, self._expected = app, f"Bearer {key}".encode()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http" and scope["path"] != OPEN_PATH:
            given = dict(scope["headers"]).get(b"authorization", b"")
            if not secrets.compare_digest(given, self._expected):
                from starlette.responses import JSONResponse

                refusal = error_body("a valid API key is needed", "invalid_api_key")
                return await JSONResponse(refusal, 401)(scope, receive, send)
        return await self._app(scope, receive, send)


def build_endpoint_app() -> Starlette:
    # Here, as the farm's supervisor needs no more of this module than its names.
    from starlette.applications import Starlette
    from starlette.responses import JSONResponse
    from starlette.routing import Route

    from workers.embedded.rules import RULES

    async def health(_: Request) -> JSONResponse:
        return JSONResponse({"status": "ok"})

    async def models(_: Request) -> JSONResponse:
        known = {"id": MODEL, "object": "model", "created": 0, "owned_by": "whetstone"}
        return JSONResponse({"object": "list", "data": [known]})

    async def chat_completions(request: Request) -> JSONResponse:
        try:
            return JSONResponse(complete(json.loads(await request.body()), RULES))
        except NoRule as error:
            return JSONResponse(error_body(str(error), "no_rule"), 400)
        except (ValueError, LookupError, TypeError, AttributeError) as error:
            return JSONResponse(error_body(f"the rules cannot read this request: {error!r}"), 400)

    chat = Route("/v1/chat/completions", chat_completions, methods=["POST"])
    return Starlette(routes=[Route(OPEN_PATH, health), Route("/v1/models", models), chat])


def complete(request: dict[str, Any], rules: Mapping[str, Rule]) -> dict[str, Any]:
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


def main() -> None:
    import uvicorn

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
    if options.fd is None:
        listener = socket.create_server((options.host, options.port))
        address = "http://{}:{}/v1".format(*listener.getsockname()[:2])
    else:
        listener = socket.socket(fileno=options.fd)
        address = unix_url(listener.getsockname())
    print(f"listening on {address}", flush=True)
    app = BearerKey(build_endpoint_app(), key)
    config = uvicorn.Config(app, log_level="warning", access_log=False, timeout_graceful_shutdown=1)
    uvicorn.Server(config).run(sockets=[listener])


if __name__ == "__main__":
    main()
