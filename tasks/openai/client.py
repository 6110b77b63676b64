"""The one client for OpenAI-compatible endpoints: Chat Completions, strict schema, one layer of retries.

The SDK's own retries are off; tenacity waits as long as the endpoint asks for or else a growing random time.  Every
attempt passes the rate limiter and reserves its cost in the budget.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, Annotated, Any, NotRequired, cast

import tenacity
from pydantic import FailFast, Field
from typing_extensions import TypedDict, Unpack

from tasks.common.http import http_url
from tasks.common.logs import SecretError, secret
from tasks.common.text import escape_control, estimate_tokens
from tasks.common.validation import InvalidData, check_value, reply_bytes
from tasks.openai import endpoint as errors
from tasks.openai.endpoint import Usage, api_path, provider_of, url_of
from tasks.openai.schema import Schema, mismatch
from tasks.records import Endpoint

if TYPE_CHECKING:
    import httpx2
    from openai import OpenAI

    from tasks.openai.budget import Budget
    from tasks.openai.limits import Limiter


@dataclass(frozen=True)
class Reply:
    """A reply that fits the schema: parsed, as text, its usage, and who wrote it (see `provider_of`)."""

    data: Mapping[str, Any]
    text: str
    usage: Usage
    system_fingerprint: str
    provider: str


@dataclass(frozen=True)
class Written:
    """A reply as it came, whether it can be used or not.  `text` is that of a refusal where the model refused.

    `finish` is the endpoint's reason, "stop" where it gives none, or "refusal".
    """

    text: str
    finish: str
    usage: Usage
    provider: str


class CallOptions(TypedDict):
    """What a call asks for.

    All attempts of the call carry `call_id` as `Idempotency-Key`, so that endpoints and logs can tell a repeated call
    from a new one.  `temperature`, `top_p` and `seed` are not sent when they are None, because reasoning models refuse
    them.
    """

    model: str
    schema_name: str
    schema: Schema
    temperature: float | None
    top_p: float | None
    max_completion_tokens: int
    seed: int | None
    call_id: str


class OpenAIClient:
    """Calls an endpoint. Safe to share between threads; the key is read for each call."""

    def __init__(self, endpoint: Endpoint, limiter: Limiter, budget: Budget) -> None:
        self._endpoint = endpoint
        self._limiter = limiter
        self._budget = budget

    def ask(self, system: str, user: str, **options: Unpack[CallOptions]) -> Reply:
        """One answer in the form of its schema."""
        completion = self._completion(*_request(system, user, options))
        return read_completion(completion, options["schema"], options["model"])

    def write(self, system: str, user: str, **options: Unpack[CallOptions]) -> Written:
        """One answer, as it came."""
        completion = self._completion(*_request(system, user, options))
        return read_written(completion, options["model"])

    def _completion(self, request: dict[str, Any], most: Usage) -> Completion:
        # Imported here: the SDK takes half a second to import, and not every process calls.
        import openai

        from tasks.openai import retry_policy

        key, sdk = self._connect(most.completion)

        def attempt() -> Completion:
            self._limiter.acquire(most.prompt + most.completion)
            reservation_id = self._budget.reserve(most)
            try:
                completion = read_response(sdk.chat.completions.with_raw_response.create(**request).http_response)
            except BaseException as error:
                self._budget.settle(
                    reservation_id, request["model"], Usage() if retry_policy.is_unbilled(error) else None
                )
                raise
            provider = provider_of(completion.get("system_fingerprint") or "", request["model"])
            self._budget.settle(reservation_id, provider, usage_of(completion) if completion.get("usage") else None)
            return completion

        try:
            return tenacity.Retrying(**retry_policy.retry_options(self._endpoint.max_tries))(attempt)
        except openai.APIError as error:
            raise retry_policy.to_call_error(error, self._endpoint.max_tries, key) from error

    def _connect(self, tokens: int) -> tuple[str, OpenAI]:
        """The current key, and the SDK's client for it and for replies of so many tokens."""
        name = self._endpoint.api_key_env
        try:
            key = secret(name)
        except SecretError as error:
            raise errors.MissingKeyError(str(error)) from None
        if not key:
            raise errors.MissingKeyError(f"neither {name} nor the file named by {name}_FILE holds a key")
        if not (key.isascii() and key.isprintable()):
            raise errors.MissingKeyError(f"what {name} holds is no key: it has other than printable ASCII characters")
        return key, _sdk(key, url_of(self._endpoint), self._endpoint.timeout_s, reply_bytes(tokens))


def _request(system: str, user: str, options: CallOptions) -> tuple[dict[str, Any], Usage]:
    """The body of a call with what the SDK is told beside it, and the most that one attempt uses."""
    sampling = {"temperature": options["temperature"], "top_p": options["top_p"], "seed": options["seed"]}
    form = {"name": options["schema_name"], "strict": True, "schema": options["schema"]}
    most = options["max_completion_tokens"]
    request = {
        "model": options["model"],
        "messages": [{"role": "system", "content": system}, {"role": "user", "content": user}],
        "response_format": {"type": "json_schema", "json_schema": form},
        "max_completion_tokens": most,
        **{name: value for name, value in sampling.items() if value is not None},
        "extra_headers": {"Idempotency-Key": options["call_id"]},
    }
    return request, Usage(prompt=estimate_tokens(system) + estimate_tokens(user), completion=most)


@lru_cache(maxsize=8)
def _sdk(key: str, url: str, timeout_s: float, most: int) -> OpenAI:
    """One for each address, key and limit of bytes in a process: it takes 20 ms to create."""
    import openai

    from tasks.common.http import bounded_client

    client = bounded_client(url, timeout_s, most)
    return openai.OpenAI(
        api_key=key, base_url=http_url(url, api_path(url, "")), timeout=timeout_s, max_retries=0, http_client=client
    )


class Message(TypedDict):
    content: NotRequired[str | None]
    refusal: NotRequired[str | None]


class Choice(TypedDict):
    message: Message
    finish_reason: NotRequired[Any]


class Completion(TypedDict):
    """What is read of a completion."""

    choices: Annotated[list[Choice], Field(min_length=1), FailFast()]
    system_fingerprint: NotRequired[str | None]
    usage: NotRequired[Any]


def read_response(response: httpx2.Response) -> Completion:
    """The completion that a reply with status 200 holds.

    The SDK's own models are not made of it: they check no types, and take 500 times the memory of a reply that has
    many small objects.
    """
    try:
        return cast("Completion", check_value(Completion, json.loads(response.content)))
    except InvalidData as error:
        raise errors.RejectedError(f"the endpoint's answer is not a chat completion: {error}") from None
    except (ValueError, RecursionError) as error:
        if "json" not in response.headers.get("content-type", "json"):
            said = escape_control(response.content[:200].decode("utf-8", "replace"))
            raise errors.RejectedError(f"the endpoint's answer is not a chat completion: {said}") from None
        reason = f"{type(error).__name__} {error}"[:300]
        raise errors.UnavailableError(f"the endpoint's answer is not JSON: {reason}") from error


def usage_of(completion: Completion) -> Usage:
    """The usage of one answered attempt; 0 for what the endpoint does not report."""
    used = completion.get("usage")
    return Usage(
        requests=1,
        prompt=_count(used, "prompt_tokens"),
        cached=_count(used, "prompt_tokens_details", "cached_tokens"),
        completion=_count(used, "completion_tokens"),
        reasoning=_count(used, "completion_tokens_details", "reasoning_tokens"),
    )


def _count(used: object, *path: str) -> int:
    """A counter, or 0 where the endpoint reports none or an impossible one."""
    for name in path:
        used = used.get(name) if isinstance(used, dict) else None
    return used if isinstance(used, int) and 0 <= used < 2**31 else 0


def read_completion(completion: Completion, schema: Schema, model: str) -> Reply:
    """The reply of a completion; `model` is the one that was requested."""
    choice = completion["choices"][0]
    message, finish_reason = choice["message"], choice.get("finish_reason")
    text = message.get("content") or ""
    if refusal := message.get("refusal"):
        raise errors.UnusableReplyError(f"the model refused: {refusal}", refusal)
    if finish_reason == "content_filter":
        raise errors.UnusableReplyError("the endpoint's content filter cut the reply", text)
    if finish_reason == "length":
        raise errors.UnusableReplyError("the reply was cut at max_completion_tokens", text)
    data = _parse(text)
    reason = mismatch(data, schema)
    if reason:
        raise errors.UnusableReplyError(f"the reply does not fit its schema: {reason}", text)
    fingerprint = completion.get("system_fingerprint") or ""
    return Reply(data, text, usage_of(completion), fingerprint, provider_of(fingerprint, model))


def read_written(completion: Completion, model: str) -> Written:
    """The reply of a completion as it came; `model` is the one that was requested."""
    choice = completion["choices"][0]
    message, reason = choice["message"], choice.get("finish_reason")
    refusal = message.get("refusal")
    return Written(
        text=refusal or message.get("content") or "",
        finish="refusal" if refusal else reason if isinstance(reason, str) and reason else "stop",
        usage=usage_of(completion),
        provider=provider_of(completion.get("system_fingerprint") or "", model),
    )


def _parse(text: str) -> Any:
    def refuse(constant: str) -> Any:
        raise ValueError(f"{constant} is not JSON")

    try:
        return json.loads(text, parse_constant=refuse)  # NaN and Infinity are Python's, not JSON's
    except (ValueError, RecursionError) as error:
        raise errors.UnusableReplyError(f"the reply is not JSON: {error}", text) from error
