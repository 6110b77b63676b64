"""The texts of chat completions: a request down to the sections of its prompt, a completion, an error. Pure.

The project's prompts are headings ("## ...") with a body each, up to a line of dashes; the rules read them back.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from tasks.openai.provider import RULES_FINGERPRINT, estimate_tokens
from tasks.openai.schema import Schema, not_strict

MODEL = "whetstone-rules"
MOST_TOKENS = 10_000_000  # of a completion
FINGERPRINT = f"{RULES_FINGERPRINT}-2"  # the version of the rules, which decides the answer of a prompt


class ApiError(Exception):
    """An error in OpenAI's form: an HTTP status, a message, a type and a code."""

    def __init__(
        self, status: int, message: str, kind: str, code: str | None = None, headers: Mapping[str, str] | None = None
    ) -> None:
        super().__init__(message)
        self.status = status
        self.headers = dict(headers or {})
        self.body = {"error": {"message": message, "type": kind, "param": None, "code": code}}


@dataclass(frozen=True)
class ChatRequest:
    """A checked request. `system` and `user` hold all messages of the role; the limit is in tokens, None for none."""

    model: str
    system: str
    user: str
    schema_name: str
    schema: Schema
    max_completion_tokens: int | None
    digest: str  # SHA-256 of the messages

    @property
    def prompt_tokens(self) -> int:
        """The estimate of `tasks.openai.provider`, by which the client charges its limits too."""
        return estimate_tokens(self.system) + estimate_tokens(self.user)


def read_request(body: object) -> ChatRequest:
    """Raises: ApiError 400 for what OpenAI refuses too, and for what rules cannot do."""
    if not isinstance(body, dict):
        raise bad_request("the body is not a JSON object")
    if body.get("stream") or body.get("n", 1) not in (1, None):
        raise bad_request("only one completion at a time is supported: no stream, no n")
    if not isinstance(body.get("model"), str):
        raise bad_request("you must provide a model parameter")
    messages = body.get("messages")
    if not isinstance(messages, list) or not messages:
        raise bad_request("messages must be a list that is not empty")
    texts: dict[str, list[str]] = {"system": [], "user": []}
    for message in messages:
        role, text = _read_message(message)
        texts[role].append(text)
    name, schema = _read_format(body.get("response_format"))
    return ChatRequest(
        model=body["model"],
        system="\n".join(texts["system"]),
        user="\n".join(texts["user"]),
        schema_name=name,
        schema=schema,
        max_completion_tokens=_read_limit(body),
        digest=hashlib.sha256(json.dumps(messages, sort_keys=True).encode()).hexdigest(),
    )


def sections(message: str) -> list[tuple[str, str]]:
    """The headings and bodies of a user message, in order. Only "\\n" ends a line: quoted texts may hold others."""
    found: list[tuple[str, list[str]]] = []
    for line in message.split("\n"):
        if line == "---":
            break
        if line.startswith("## "):
            found.append((line.removeprefix("## "), []))
        elif found:
            found[-1][1].append(line)
    return [(heading, "\n".join(lines).strip("\n")) for heading, lines in found]


def section(message: str, heading: str) -> str:
    """The body below the first heading that begins with `heading`. Raises: ValueError when there is none."""
    for title, text in sections(message):
        if title.startswith(heading):
            return text
    raise ValueError(f"the user message has no section {heading!r}")


def json_section(message: str, heading: str) -> Any:
    """The body as JSON. Raises: ValueError when it is missing or not JSON."""
    return json.loads(section(message, heading))


def completion(
    request: ChatRequest, text: str, finish_reason: str, refusal: str | None, created: int
) -> dict[str, Any]:
    """The body of a 200. `created` in seconds since 1970."""
    written = estimate_tokens(refusal or text)
    return {
        "id": f"chatcmpl-{request.digest[:24]}",
        "object": "chat.completion",
        "created": created,
        "model": request.model,
        "system_fingerprint": FINGERPRINT,
        "choices": [
            {
                "index": 0,
                "finish_reason": finish_reason,
                "logprobs": None,
                "message": {"role": "assistant", "content": None if refusal else text, "refusal": refusal},
            }
        ],
        "usage": {
            "prompt_tokens": request.prompt_tokens,
            "completion_tokens": written,
            "total_tokens": request.prompt_tokens + written,
            "prompt_tokens_details": {"cached_tokens": 0},
            "completion_tokens_details": {"reasoning_tokens": 0},
        },
    }


def bad_request(message: str) -> ApiError:
    return ApiError(400, message, "invalid_request_error")


def too_many(message: str, seconds: float) -> ApiError:
    """429, with the wait in both of OpenAI's headers; Retry-After is rounded up to whole seconds."""
    headers = {"retry-after": str(int(-(-seconds // 1))), "retry-after-ms": str(int(-(-seconds * 1000 // 1)))}
    return ApiError(429, message, "requests", "rate_limit_exceeded", headers)


def _read_message(message: object) -> tuple[str, str]:
    role = message.get("role") if isinstance(message, dict) else None
    content = message.get("content") if isinstance(message, dict) else None
    if isinstance(content, list) and all(isinstance(part, dict) and "text" in part for part in content):
        content = "".join(str(part["text"]) for part in content)
    if role not in ("system", "developer", "user") or not isinstance(content, str):
        raise bad_request("a message has a role (system, developer or user) and a content that is text")
    return "user" if role == "user" else "system", content


def _read_format(response_format: object) -> tuple[str, Schema]:
    if not isinstance(response_format, dict) or response_format.get("type") != "json_schema":
        raise bad_request("response_format must be of type json_schema")
    requested = response_format.get("json_schema")
    if not isinstance(requested, dict):
        raise bad_request("response_format has no json_schema")
    if requested.get("strict") is not True:
        raise bad_request("json_schema must have strict: true")
    name, schema = requested.get("name"), requested.get("schema")
    try:
        reason = not_strict(schema)
    except (AttributeError, TypeError) as error:
        reason = str(error)
    if not isinstance(name, str) or not isinstance(schema, dict) or reason:
        raise bad_request(f"invalid schema for response_format {name!r}: {reason}")
    return name, schema


def _read_limit(body: Mapping[str, Any]) -> int | None:
    limit = body.get("max_completion_tokens", body.get("max_tokens"))
    if limit is not None and (not isinstance(limit, int) or isinstance(limit, bool) or not 1 <= limit <= MOST_TOKENS):
        raise bad_request(f"max_completion_tokens must be a positive integer, {MOST_TOKENS:,} at most")
    return limit
