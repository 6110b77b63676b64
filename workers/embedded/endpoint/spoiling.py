"""Replies that are not what was asked for: the faults that come with HTTP 200. Pure."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

from workers.embedded.endpoint.chat import ChatRequest, bad_request
from workers.embedded.endpoint.faults import Fault
from workers.embedded.endpoint.sections import body, json_body


@dataclass(frozen=True)
class Written:
    """What the model is to have written. With a `refusal`, nothing."""

    text: str
    finish_reason: str = "stop"
    refusal: str | None = None


def spoil(reply: dict[str, Any], asked: ChatRequest, fault: Fault | None) -> Written:
    """`reply` as `fault` leaves it. Raises: ApiError 400 for "unchanged" where no delta was asked for."""
    kind = fault.kind if fault else ""
    if kind == "refusal":
        return Written("", refusal="I'm sorry, I can't help with that, as I was told.")
    if kind == "unchanged":
        reply = {**reply, "delta": _current_delta(asked.user)}
    text = json.dumps(reply, ensure_ascii=False)
    if kind == "truncated":
        return Written(text[: len(text) // 2], "length")
    if kind == "invalid_json":
        return Written(f"Here you are: {text[:-1]}")
    return Written(text)


def _current_delta(user: str) -> float:
    try:
        return float(json_body(user, "Current delta vector")[body(user, "Target cluster").strip()])
    except (ValueError, KeyError, TypeError) as error:
        raise bad_request(f"the fault 'unchanged' is for mutations: {error}") from error
