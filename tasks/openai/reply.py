"""What an endpoint has answered: the reply as it came, and what of it can be used."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Annotated, Any, NotRequired

from pydantic import FailFast, Field
from typing_extensions import TypedDict

from tasks.common.validation import InvalidData, parse_json
from tasks.openai.endpoint import Usage

MOST_OBJECTS = 50  # that are tried in one reply
ONLY_TOOLS = "only_tool_calls"  # how a reply ends that calls tools and has no text, though no tools were offered


@dataclass(frozen=True)
class Reply:
    """A reply as it came, whether it can be used or not."""

    text: str  # that of a refusal where the model refused
    finish: str  # of `finish_of`
    usage: Usage
    system_fingerprint: str
    provider: str  # who wrote it (`provider_of`)


class Message(TypedDict):
    content: NotRequired[Any]  # a text, or a list of parts
    reasoning_content: NotRequired[Any]  # or `reasoning`
    reasoning: NotRequired[Any]
    refusal: NotRequired[str | None]
    tool_calls: NotRequired[Any]


class Choice(TypedDict):
    message: Message
    finish_reason: NotRequired[Any]


class Completion(TypedDict):
    """What is read of a completion.  The SDK's own models check no types, and take 500 times the memory."""

    choices: Annotated[list[Choice], Field(min_length=1), FailFast()]
    system_fingerprint: NotRequired[str | None]
    usage: NotRequired[Any]


def text_of(message: Message) -> str:
    """The text of a message; where a model has put all of it into its reasoning, that."""
    content = message.get("content") or message.get("reasoning_content") or message.get("reasoning") or ""
    if isinstance(content, list):
        return "".join(str(part.get("text", "")) for part in content if isinstance(part, dict))
    return content if isinstance(content, str) else json.dumps(content)


def finish_of(choice: Choice) -> str:
    """The endpoint's reason for the end, "stop" where it gives none; or "refusal", or `ONLY_TOOLS`.

    Gemini says which of its filters it was: "content_filter: PROHIBITED_CONTENT" is "content_filter".
    """
    if choice["message"].get("refusal"):
        return "refusal"
    if choice["message"].get("tool_calls") and not text_of(choice["message"]):
        return ONLY_TOOLS
    reason = choice.get("finish_reason")
    if not isinstance(reason, str) or not reason:
        return "stop"
    return "content_filter" if reason.startswith("content_filter") else reason


def usable_text(kind: Any, text: str) -> str:
    """The one JSON object in a text that is of this type, whatever stands around it.

    Without one the only object there is, whose fault is then told, or the text itself.
    """
    if _is_of(kind, text):
        return text
    objects, at, decoder = set(), 0, json.JSONDecoder()
    answer = text.rpartition("</think>")[2]
    for _ in range(MOST_OBJECTS):
        if (at := answer.find("{", at)) < 0:
            break
        try:
            _, end = decoder.raw_decode(answer, at)
        except (ValueError, RecursionError):
            at += 1
            continue
        objects.add(answer[at:end])
        at = end
    found = [one for one in objects if _is_of(kind, one)] or list(objects)
    return found[0] if len(found) == 1 else text


def _is_of(kind: Any, text: str) -> bool:
    try:
        parse_json(kind, text)
    except InvalidData:
        return False
    return True


def usage_of(completion: Completion) -> Usage:
    """The usage of one answered attempt; 0 for what the endpoint does not report.

    Cached tokens are at most the prompt's, also where a proxy counts them apart: the cost would be negative.
    """
    used = completion.get("usage")
    prompt = _count(used, "prompt_tokens")
    return Usage(
        requests=1,
        prompt=prompt,
        cached=min(prompt, _count(used, "prompt_tokens_details", "cached_tokens")),
        completion=_count(used, "completion_tokens"),
        reasoning=_count(used, "completion_tokens_details", "reasoning_tokens"),
    )


def _count(used: object, *path: str) -> int:
    """A counter, or 0 where the endpoint reports none or an impossible one."""
    for name in path:
        used = used.get(name) if isinstance(used, dict) else None
    return used if isinstance(used, int) and 0 <= used < 2**31 else 0
