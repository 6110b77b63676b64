"""Stand-ins that speak as OpenAI-compatible servers do: what they take, how they fail, and how their replies look."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler
from typing import Any
from urllib.parse import parse_qs, urlsplit

from http_thread import http_server

KEY = "key-for-tests-0123456789"
CONTENT = '{"scratchpad": "End earlier."}'
INVALID_REPLY = {
    "error": {"message": "Generated JSON does not match the expected schema.", "code": "json_validate_failed",
              "failed_generation": '{"scratch'}
}  # fmt: skip  # Groq's
USAGE = {"prompt_tokens": 300, "completion_tokens": 8, "total_tokens": 308}


def completion(message: dict[str, Any], **more: Any) -> dict[str, Any]:
    choice = {"index": 0, "finish_reason": "stop", "message": {"role": "assistant", **message}}
    return {"id": "x", "object": "chat.completion", "choices": [choice], "usage": USAGE, **more}


class Refusal(Exception):
    """Its arguments are a status and a body."""


class Server:
    """What all have in common: POST /v1/chat/completions.  `asked` are the requests; `troubles` happen first."""

    path = "/v1/chat/completions"

    def __init__(self) -> None:
        self.url, self.asked, self.troubles = "", list[Any](), list[tuple[int, Any]]()

    def answer(self, path: str, headers: dict[str, str], body: dict[str, Any]) -> Any:
        """What follows the status 200: JSON, or the text of a body."""
        if urlsplit(path).path != self.path:
            raise Refusal(404, "404 page not found")
        return self.complete(body)

    def complete(self, body: dict[str, Any]) -> Any:
        return completion({"content": CONTENT})


class Ollama(Server):
    """A model may think aloud, and its cloud does not enforce a schema."""

    def complete(self, body: dict[str, Any]) -> Any:
        return completion({"content": f"```json\n{CONTENT}\n```\nI hope this helps.", "reasoning": "End {earlier}?"})


class OpenRouter(Server):
    """Keeps the connection open with comments."""

    path = "/api/v1/chat/completions"

    def complete(self, body: dict[str, Any]) -> Any:
        text = json.dumps(completion({"content": CONTENT, "reasoning": None}, provider="Together"))
        return f": OPENROUTER PROCESSING\n\n: OPENROUTER PROCESSING\n\n{text}"


class OldVLLM(Server):
    """Before 0.6.4: refuses what it does not know, in the outermost object."""

    def complete(self, body: dict[str, Any]) -> Any:
        if "max_completion_tokens" in body:
            problem = [{"type": "extra_forbidden", "loc": ["body", "max_completion_tokens"], "msg": "Extra inputs"}]
            raise Refusal(400, {"object": "error", "message": str(problem), "type": "BadRequestError", "code": 400})
        assert body["max_tokens"] == 500
        return completion({"content": None, "reasoning_content": CONTENT})


class NoSchema(Server):
    """FastAPI's own check of a request, as servers of a few hundred lines have it."""

    def complete(self, body: dict[str, Any]) -> Any:
        kind = body.get("response_format", {}).get("type")
        if kind == "json_schema":
            place = ["body", "response_format", "type"]
            raise Refusal(422, {"detail": [{"loc": place, "msg": "Input should be 'text' or 'json_object'"}]})
        assert kind == "json_object" and '"scratchpad"' in body["messages"][0]["content"]
        return completion({"content": [{"type": "text", "text": CONTENT}]}, usage=None)


class Azure(Server):
    """A deployment: the model is in the path, the version in the query, the key in a header of its own."""

    path = "/openai/deployments/mini/chat/completions"

    def answer(self, path: str, headers: dict[str, str], body: dict[str, Any]) -> Any:
        if parse_qs(urlsplit(path).query).get("api-version") != ["2024-10-21"]:
            raise Refusal(404, {"error": {"code": "404", "message": "Resource not found"}})
        if headers.get("api-key") != KEY:
            raise Refusal(401, {"error": {"code": "401", "message": "Access denied due to invalid subscription key."}})
        return super().answer(path, headers, body)


@contextmanager
def serving(server: Server) -> Iterator[Server]:
    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = json.loads(self.rfile.read(int(self.headers["content-length"])))
            server.asked.append((self.path, body))
            headers = {name.lower(): value for name, value in self.headers.items()}
            try:
                if server.troubles:
                    raise Refusal(*server.troubles.pop(0))
                status, answer = 200, server.answer(self.path, headers, body)
            except Refusal as refusal:
                status, answer = refusal.args
            data = (answer if isinstance(answer, str) else json.dumps(answer)).encode()
            self.send_response(status)
            self.send_header("content-type", "text/html" if data.startswith(b"<") else "application/json")
            self.send_header("content-length", str(len(data)))
            self.end_headers()
            self.wfile.write(data)

    with http_server(Handler) as address:
        server.url = address
        yield server
