"""HTTP replies of the target and of the endpoint: each gives a checked result or an error of ours."""

from __future__ import annotations

import json
import os
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler
from typing import Any

import pytest
from fuzz_cases import JSON, cases, damaged
from http_thread import http_server
from hypothesis import example, given
from hypothesis import strategies as st

from tasks.gpu.target import Generated, GenerateRequest, TargetClient, TargetDown, TargetRefused
from tasks.models import Endpoint
from tasks.openai.budget import LocalBudget
from tasks.openai.client import OpenAIClient
from tasks.openai.errors import CallError
from tasks.openai.limits import LocalLimiter
from tasks.openai.schema import strict_object

REQUEST = GenerateRequest((1, 2), 8, 0.0, 1.0, 0, (2,))
META = {"finish_reason": {"type": "stop", "matched": 2}, "prompt_tokens": 2, "completion_tokens": 3, "cached_tokens": 0}
GENERATED = {"text": "so", "output_ids": [5, 6, 2], "meta_info": META}
SCHEMA = strict_object({"delta": {"type": "number"}, "scratchpad": {"type": "string"}})
MESSAGE = {"role": "assistant", "content": '{"delta": 1.0, "scratchpad": "s"}', "refusal": None}
CHOICE = {"index": 0, "finish_reason": "stop", "message": MESSAGE, "logprobs": None}
USAGE = {
    "prompt_tokens": 1, "completion_tokens": 1, "total_tokens": 2, "prompt_tokens_details": {"cached_tokens": 0},
    "completion_tokens_details": {"reasoning_tokens": 0},
}  # fmt: skip
COMPLETION = {
    "id": "x", "object": "chat.completion", "created": 0, "model": "m", "system_fingerprint": "fp",
    "choices": [CHOICE], "usage": USAGE,
}  # fmt: skip
STATUS = st.sampled_from([200, 200, 200, 200, 201, 204, 302, 400, 401, 404, 408, 413, 429, 500, 503])
TYPES = ["application/json", "application/json; charset=utf-99", "application/json; charset=utf-16", "text/html", ""]
HEADERS = st.fixed_dictionaries(
    {},
    optional={
        "Content-Type": st.sampled_from(TYPES),
        "Content-Encoding": st.sampled_from(["gzip", "br", "identity", "nonsense"]),
        "Retry-After": st.sampled_from(["soon", "-1", "nan", "inf", "1e999", "Wed, 21 Oct 9999 07:28:00 GMT", "99999"]),
        "Location": st.sampled_from(["/generate", "http://127.0.0.1:9/", "file:///etc/passwd"]),
    },
)


@dataclass
class Reply:
    """One reply; `length` is the value of its Content-Length header, None for the true one."""

    status: int = 200
    body: bytes = b""
    headers: dict[str, str] = field(default_factory=dict)
    length: int | None = None


@dataclass
class ReplyServer:
    """The address of the server, and its next reply."""

    reply: Reply = field(default_factory=Reply)
    url: str = ""


def replies(valid: dict[str, Any]) -> st.SearchStrategy[Reply]:
    """Replies that resemble a valid one, and any others."""
    bodies = st.one_of(damaged(valid), JSON).map(lambda value: json.dumps(value).encode()) | st.binary()
    return st.builds(Reply, STATUS, bodies, HEADERS, st.none() | st.integers(0, 500)) | st.builds(Reply, body=bodies)


@pytest.fixture(scope="module")
def server() -> Iterator[ReplyServer]:
    state = ReplyServer()

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            self.rfile.read(int(self.headers["Content-Length"]))
            reply = state.reply
            self.send_response(reply.status)
            length = len(reply.body) if reply.length is None else reply.length
            headers = {"Content-Type": "application/json", **reply.headers, "Content-Length": str(length)}
            for name, value in {**headers, "Connection": "close"}.items():
                self.send_header(name, value)
            self.end_headers()
            self.wfile.write(reply.body)
            self.close_connection = True

    with http_server(Handler) as state.url:
        yield state


@cases
@given(reply=replies(GENERATED))
@example(Reply(body=b"[" * 100_000))
@example(Reply(body=b"\xff\xfe"))
@example(Reply(body=json.dumps(GENERATED | {"meta_info": META | {"prompt_tokens": float("inf")}}).encode()))
@example(Reply(500, b"<html>\n\x1b[31mdown\n</html>" * 1000))
def test_replies_of_the_target(server: ReplyServer, tried: Counter[str], reply: Reply) -> None:
    tried["replies of the target"] += 1
    server.reply = reply
    found: list[Generated] = []
    client = TargetClient(server.url, timeout_s=2, concurrency=1, retry_s=0)

    try:
        client.generate_many([REQUEST], lambda _, generated: found.append(generated))
    except (TargetDown, TargetRefused) as error:
        assert len(str(error)) < 1500
        return
    [generated] = found
    assert isinstance(generated.text, str) and all(isinstance(token, int) for token in generated.output_ids)
    assert generated.completion_tokens == len(generated.output_ids) and generated.finish in ("stop", "length")
    assert min(generated.prompt_tokens, generated.cached_tokens) >= 0


@cases
@given(reply=replies(COMPLETION))
@example(Reply(body=b"[" * 100_000))
@example(Reply(body=b"\xff\xfe"))
@example(Reply(429, b"{}", {"Retry-After": "1e999"}))
@example(Reply(200, b"<html>a proxy's page</html>", {"Content-Type": "text/html"}))
def test_replies_of_the_endpoint(server: ReplyServer, tried: Counter[str], reply: Reply) -> None:
    tried["replies of the endpoint"] += 1
    server.reply = reply
    os.environ["KEY_OF_THIS_TEST"] = "k-0123456789"
    endpoint = Endpoint(f"{server.url}/v1", "KEY_OF_THIS_TEST", 2, 1, 0, 0, 0, 0, 0, 0)
    client = OpenAIClient(endpoint, LocalLimiter(0, 0), LocalBudget(endpoint))

    try:
        result = client.ask(
            "system", "user", model="m", schema_name="mutation", schema=SCHEMA, temperature=0, top_p=1,
            max_completion_tokens=10, seed=0, call_id="c",
        )  # fmt: skip
    except CallError as error:
        assert 0 < len(str(error)) < 1500 and len(str(error).splitlines()) == 1
        return
    assert set(result.data) == {"delta", "scratchpad"} and isinstance(result.data["scratchpad"], str)
    assert min(result.usage.prompt, result.usage.completion, result.usage.cached, result.usage.reasoning) >= 0
