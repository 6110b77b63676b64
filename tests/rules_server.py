"""The rules of the embedded endpoint in a thread of the test, with faults on request and a log of the calls.

A fault is `SCHEMA:KIND:TIMES`; several are separated by commas.  SCHEMA is the name of a schema, or `*`; TIMES is a
count, or `*`.  KIND is rate_limit[:SECONDS], quota, 500, context, refusal, truncated, invalid_json, another_schema,
oversized, unchanged (the reflector proposes the current delta) or hang:SECONDS.
"""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler
from pathlib import Path
from typing import Any

from http_thread import http_server

from workers.embedded.endpoint import NoRule, complete, error_body
from workers.embedded.rules import RULES
from workers.embedded.rules.sections import json_section, section

KEY = "key-for-tests-0123456789"
OVERSIZED = 10_000_000  # characters


class RulesServer:
    """`url` is its address, `log` the file with a line for each call.  May be used from several threads."""

    def __init__(self, log: Path) -> None:
        self.log, self.key, self.url = log, KEY, ""
        self._lock = threading.Lock()
        self._faults: list[list[Any]] = []  # of each its schema, kind, seconds, and how often it still happens

    @property
    def options(self) -> dict[str, str]:
        """The options of a run that asks this server."""
        return {"OPENAI_BASE_URL": self.url}

    def fail(self, faults: str) -> None:
        """From now on make these faults, and no others."""
        parts = [part.split(":") for part in faults.split(",") if part]
        self._faults = [
            [schema, kind, float(seconds[0]) if seconds else 1.0, float("inf") if times == "*" else int(times)]
            for schema, kind, *seconds, times in parts
        ]

    def calls(self, call_id: str = "") -> list[dict[str, Any]]:
        """All calls, or those with an id."""
        lines = [json.loads(line) for line in self.log.read_text().splitlines()] if self.log.exists() else []
        return [line for line in lines if call_id in ("", line["call_id"])]

    def answer(self, request: dict[str, Any], call_id: str) -> tuple[int, Any, Any]:
        """The status, the body and the headers of a reply."""
        schema = request["response_format"]["json_schema"]["name"]
        kind, seconds = self._take(schema)
        try:
            status, body, headers = _with_fault(kind, seconds, complete(request, RULES), request)
        except NoRule as error:
            status, body, headers = 400, error_body(str(error), "no_rule"), {}
        usage = body.get("usage") or {"prompt_tokens": 0, "completion_tokens": 0}
        if kind == "hang":
            time.sleep(seconds)
        line = {"call_id": call_id, "schema": schema, "status": status, "fault": kind, **usage, "at": time.time()}
        with self._lock, self.log.open("a") as out:
            out.write(json.dumps(line) + "\n")
        return status, body, headers

    def _take(self, schema: str) -> tuple[str, float]:
        with self._lock:
            for fault in self._faults:
                if fault[0] in ("*", schema) and fault[3] > 0:
                    fault[3] -= 1
                    return fault[1], fault[2]
        return "", 0.0


def _with_fault(kind: str, seconds: float, body: dict[str, Any], request: dict[str, Any]) -> tuple[int, Any, Any]:
    if kind == "rate_limit":
        headers = {"retry-after": str(int(-(-seconds // 1))), "retry-after-ms": str(int(seconds * 1000))}
        return 429, error_body("Rate limit reached.", "rate_limit_exceeded"), headers
    errors = {"quota": (429, "insufficient_quota"), "500": (500, None), "context": (400, "context_length_exceeded")}
    if kind in errors:
        return errors[kind][0], error_body(f"a requested fault: {kind}", errors[kind][1]), {}
    choice, user = body["choices"][0], request["messages"][-1]["content"]
    message, reply = choice["message"], json.loads(choice["message"]["content"])
    text = message["content"]
    if kind == "refusal":
        message["refusal"] = "I'm sorry, I can't help with that."  # beside a content that could be used
    elif kind == "truncated":
        choice["finish_reason"], message["content"] = "length", text[: len(text) // 2]
    elif kind == "invalid_json":
        message["content"] = f"Here you are: {text[:-1]}"
    elif kind == "another_schema":
        message["content"] = json.dumps({"another": 1})
    elif kind == "oversized":
        message["content"] = json.dumps({**reply, "scratchpad": "x" * OVERSIZED})
    elif kind == "unchanged":
        current = json_section(user, "Current delta vector")[section(user, "Target cluster").strip()]
        message["content"] = json.dumps({**reply, "delta": current})
    return 200, body, {}


@contextmanager
def rules_server(log: Path) -> Iterator[RulesServer]:
    rules = RulesServer(log)

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_GET(self) -> None:
            self.reply(200, {"data": [{"id": "whetstone-rules"}]}, {})

        def do_POST(self) -> None:
            request = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            if self.headers["Authorization"] != f"Bearer {rules.key}":
                self.reply(401, error_body("a valid API key is needed"), {})
            else:
                self.reply(*rules.answer(request, self.headers.get("Idempotency-Key", "")))

        def reply(self, status: int, body: Any, headers: dict[str, str]) -> None:
            raw = json.dumps(body).encode()
            self.send_response(status)
            for name, value in {**headers, "content-type": "application/json", "content-length": len(raw)}.items():
                self.send_header(name, str(value))
            self.end_headers()
            self.wfile.write(raw)

    with http_server(Handler) as url:
        rules.url = f"{url}/v1"
        yield rules
