"""The one client for OpenAI-compatible endpoints: Chat Completions, strict schema, one layer of retries.

The SDK's own retries are off; tenacity waits what the endpoint asked for and, where it asked for nothing, a random
time that grows.  Every try passes the limiter first and is paid from the purse.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, Any

import tenacity

from tasks.message import Shape, shape_error
from tasks.models import Endpoint
from tasks.openai import errors
from tasks.openai.provider import answerer, url_of
from tasks.openai.schema import Schema, mismatch
from tasks.openai.usage import Usage, estimate_tokens
from tasks.secret import SecretError, secret

if TYPE_CHECKING:
    from openai import OpenAI
    from openai.types.chat import ChatCompletion

    from tasks.openai.budget import Budget
    from tasks.openai.limits import Limiter


@dataclass(frozen=True)
class Reply:
    """An answer that fits the schema: parsed, as written, what it took, and who wrote it (see `answerer`)."""

    data: Mapping[str, Any]
    text: str
    usage: Usage
    system_fingerprint: str
    by: str


class OpenAIClient:
    """Asks an endpoint. Safe to share among threads; the key is read when a call is made."""

    def __init__(self, endpoint: Endpoint, limiter: Limiter, purse: Budget) -> None:
        self._endpoint = endpoint
        self._limiter = limiter
        self._purse = purse

    def ask(
        self,
        system: str,
        user: str,
        *,
        model: str,
        schema_name: str,
        schema: Schema,
        temperature: float,
        top_p: float,
        max_completion_tokens: int,
        seed: int,
        call_id: str,
    ) -> Reply:
        """One answer in the form of `schema`.

        `call_id` names the call: all its tries carry it as `Idempotency-Key`, so endpoints and logs can tell a
        repeated call from a new one.  Raises: the classes of `tasks.openai.errors`.
        """
        request = {
            "model": model,
            "messages": [{"role": "system", "content": system}, {"role": "user", "content": user}],
            "response_format": {
                "type": "json_schema",
                "json_schema": {"name": schema_name, "strict": True, "schema": schema},
            },
            "temperature": temperature,
            "top_p": top_p,
            "max_completion_tokens": max_completion_tokens,
            "seed": seed,
            "extra_headers": {"Idempotency-Key": call_id},
        }
        prompt = estimate_tokens(system) + estimate_tokens(user)
        completion = self._completion(request, Usage(prompt=prompt, completion=max_completion_tokens))
        return read_reply(completion, schema, model)

    def _completion(self, request: dict[str, Any], most: Usage) -> ChatCompletion:
        # Here, because the SDK takes half a second to import and not all who import this module call.
        import openai

        from tasks.openai import retry_policy

        key, sdk = self._connect()

        def attempt() -> ChatCompletion:
            self._limiter.acquire(most.prompt + most.completion)
            receipt = self._purse.reserve(most)
            try:
                completion = _completion_or_error(sdk.chat.completions.create(**request))
            except BaseException as error:
                self._purse.settle(receipt, request["model"], Usage() if retry_policy.is_unbilled(error) else None)
                if isinstance(error, ValueError | RecursionError | LookupError):  # whatever decoding it may raise
                    said = f"{type(error).__name__} {error}"[:300]
                    raise errors.UnavailableError(f"the endpoint's answer is not JSON: {said}") from error
                raise
            by = answerer(completion.system_fingerprint or "", request["model"])
            self._purse.settle(receipt, by, usage_of(completion) if completion.usage else None)
            return completion

        try:
            return tenacity.Retrying(**retry_policy.policy(self._endpoint.max_tries))(attempt)
        except openai.APIError as error:
            raise retry_policy.named(error, self._endpoint.max_tries, key) from error

    def _connect(self) -> tuple[str, OpenAI]:
        """The key as it is now, and the SDK's client for it."""
        name = self._endpoint.api_key_env
        try:
            key = secret(name)
        except SecretError as error:
            raise errors.MissingKeyError(str(error)) from None
        if not key:
            raise errors.MissingKeyError(f"neither {name} nor the file named by {name}_FILE holds a key")
        if not (key.isascii() and key.isprintable()):
            raise errors.MissingKeyError(f"what {name} holds is no key: it has other than printable ASCII characters")
        return key, _sdk(key, url_of(self._endpoint), self._endpoint.timeout_s)


@lru_cache(maxsize=4)
def _sdk(key: str, url: str, timeout_s: float) -> OpenAI:
    """One for each address in a process: it holds the connections, and takes 20 ms to make."""
    import openai

    return openai.OpenAI(api_key=key, base_url=url, timeout=timeout_s, max_retries=0)


COMPLETION: Shape = {"choices": [{"message": dict}]}
"""The least of a completion; the SDK checks no types."""


def _completion_or_error(answer: object) -> ChatCompletion:
    """The SDK hands on whatever a server says with 200, a page of HTML too."""
    from openai.types.chat import ChatCompletion

    if not isinstance(answer, ChatCompletion):
        raise errors.RejectedError(f"the endpoint's answer is not a chat completion: {str(answer)[:200]}")
    if reason := shape_error(COMPLETION, answer.to_dict(warnings=False)) or _no_text(answer):
        raise errors.RejectedError(f"the endpoint's answer is not a chat completion: {reason}")
    return answer


def _no_text(completion: ChatCompletion) -> str | None:
    if not completion.choices:
        return "it has no choices"
    message = completion.choices[0].message
    parts = {"content": message.content, "refusal": message.refusal, "fingerprint": completion.system_fingerprint}
    wrong = [name for name, value in parts.items() if not isinstance(value, str | None)]
    return f"its {wrong[0]} is no text" if wrong else None


def usage_of(completion: ChatCompletion) -> Usage:
    """What one answered try used; endpoints that report less leave zeros."""
    used = completion.usage
    return Usage(
        requests=1,
        prompt=_count(used, "prompt_tokens"),
        cached=_count(getattr(used, "prompt_tokens_details", None), "cached_tokens"),
        completion=_count(used, "completion_tokens"),
        reasoning=_count(getattr(used, "completion_tokens_details", None), "reasoning_tokens"),
    )


def _count(used: object, name: str) -> int:
    """A counter, or 0 where the endpoint reports none, or nothing that could be one."""
    value = getattr(used, name, 0)
    return value if isinstance(value, int) and 0 <= value < 2**31 else 0


def read_reply(completion: ChatCompletion, schema: Schema, model: str) -> Reply:
    """The reply of a completion; `model` is the one that was asked.

    Raises: RefusedError, FilteredError, TruncatedError, InvalidJsonError, SchemaMismatchError.
    """
    choice = completion.choices[0]
    text = choice.message.content or ""
    if choice.message.refusal:
        raise errors.RefusedError(f"the model refused: {choice.message.refusal}", choice.message.refusal)
    if choice.finish_reason == "content_filter":
        raise errors.FilteredError("the endpoint's content filter cut the reply", text)
    if choice.finish_reason == "length":
        raise errors.TruncatedError("the reply was cut at max_completion_tokens", text)
    data = _parse(text)
    reason = mismatch(data, schema)
    if reason:
        raise errors.SchemaMismatchError(f"the reply does not fit its schema: {reason}", text)
    fingerprint = completion.system_fingerprint or ""
    return Reply(data, text, usage_of(completion), fingerprint, answerer(fingerprint, model))


def _parse(text: str) -> Any:
    def refuse(constant: str) -> Any:
        raise ValueError(f"{constant} is not JSON")

    try:
        return json.loads(text, parse_constant=refuse)  # NaN and Infinity are Python's, not JSON's
    except (ValueError, RecursionError) as error:
        raise errors.InvalidJsonError(f"the reply is not JSON: {error}", text) from error
