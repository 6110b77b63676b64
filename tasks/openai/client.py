"""The one client for OpenAI-compatible endpoints: Chat Completions, strict schema, one layer of retries.

The SDK's own are off; tenacity waits as long as the endpoint asks for, or else a growing random time.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, Annotated, Any, NotRequired, TypeVar

import tenacity
from pydantic import FailFast, Field
from typing_extensions import TypedDict

from tasks.common.logs import SecretError, secret
from tasks.common.text import escape_control, estimate_tokens
from tasks.common.validation import InvalidData, ReplyModel, check_value, parse_json, reply_bytes
from tasks.openai import endpoint as errors
from tasks.openai.endpoint import CONTEXT_EXCEEDED, NO_RULE, Usage, api_path, provider_of, url_of
from tasks.openai.limits import Limits
from tasks.records import Endpoint, Judge, Reflector

if TYPE_CHECKING:
    import openai

RETRIED_STATUS = frozenset({408, 409, 429})
LONGEST_BACKOFF_S = 30.0
# When the endpoint asks for a longer wait, the call fails as transient and the task is retried later.
LONGEST_REQUESTED_S = 300.0
_backoff = tenacity.wait_random_exponential(multiplier=0.5, max=LONGEST_BACKOFF_S)
NOT_SENT = frozenset({"ConnectError", "ConnectTimeout", "ProxyError", "UnsupportedProtocol"})  # errors of httpx2


R = TypeVar("R", bound=ReplyModel)
Messages = tuple[str, str]  # system and user


@dataclass(frozen=True)
class Reply:
    """A reply as it came, whether it can be used or not."""

    text: str  # that of a refusal where the model refused
    finish: str  # the endpoint's reason, "stop" where it gives none, or "refusal"
    usage: Usage
    system_fingerprint: str
    provider: str  # who wrote it (`provider_of`)


class OpenAIClient:
    """Calls an endpoint. Safe to share between threads; the key is read for each call."""

    def __init__(self, endpoint: Endpoint, limits: Limits) -> None:
        self._endpoint, self._limits = endpoint, limits

    def ask(
        self, messages: Messages, reply: type[R], settings: Reflector | Judge, call_id: str, repeated: int = 0
    ) -> tuple[R, Reply]:
        """One answer in the form of `reply`; what was asked `repeated` times before has another seed and id."""
        from openai.lib._pydantic import to_strict_json_schema

        call_id, seed = f"{call_id}-{repeated + 1}" if repeated else call_id, settings.seed
        seed = None if seed is None else seed + repeated
        written = self.write(messages, reply.schema_name, to_strict_json_schema(reply), settings, call_id, seed)
        if written.finish in _UNUSABLE:
            raise errors.UnusableReplyError(_UNUSABLE[written.finish].format(written.text), written.text)
        try:
            return parse_json(reply, written.text), written
        except InvalidData as error:
            raise errors.UnusableReplyError(f"the reply does not fit its schema: {error}", written.text) from None

    def write(
        self,
        messages: Messages,
        name: str,
        schema: Mapping[str, Any],
        settings: Reflector | Judge,
        call_id: str,
        seed: int | None,
    ) -> Reply:
        """One answer as it came, requested in the form of a strict schema of this name.

        All attempts carry `call_id` as `Idempotency-Key`, so that endpoints and logs can tell a repeated call from a
        new one.  `temperature`, `top_p` and `seed` are not sent when they are None: reasoning models refuse them.
        """
        sampling = {"temperature": settings.temperature, "top_p": settings.top_p, "seed": seed}
        form = {"name": name, "strict": True, "schema": schema}
        completion = self._complete(
            Usage(prompt=sum(map(estimate_tokens, messages)), completion=settings.max_completion_tokens),
            {
                "model": settings.model,
                "messages": [dict(role=r, content=text) for r, text in zip(("system", "user"), messages, strict=True)],
                "response_format": {"type": "json_schema", "json_schema": form},
                "max_completion_tokens": settings.max_completion_tokens,
                **{name: value for name, value in sampling.items() if value is not None},
                "extra_headers": {"Idempotency-Key": call_id},
            },
        )
        choice, fingerprint = completion["choices"][0], completion.get("system_fingerprint") or ""
        refusal, reason = choice["message"].get("refusal"), choice.get("finish_reason")
        return Reply(
            text=refusal or choice["message"].get("content") or "",
            finish="refusal" if refusal else reason if isinstance(reason, str) and reason else "stop",
            usage=usage_of(completion),
            system_fingerprint=fingerprint,
            provider=provider_of(fingerprint, settings.model),
        )

    def _complete(self, most: Usage, request: dict[str, Any]) -> Completion:
        import openai  # here, since it takes half a second, and not every process calls

        key = self._key()
        sdk = _sdk(key, url_of(self._endpoint), self._endpoint.timeout_s, reply_bytes(most.completion))

        def attempt() -> Completion:
            call = self._limits.begin(most)
            try:
                response = sdk.chat.completions.with_raw_response.create(**request).http_response
                completion = read_completion(response.content, response.headers)
            except BaseException as error:
                self._limits.settle(call, request["model"], Usage() if is_unbilled(error) else None)
                raise
            provider = provider_of(completion.get("system_fingerprint") or "", request["model"])
            self._limits.settle(call, provider, usage_of(completion) if completion.get("usage") else None)
            return completion

        def requested_s(state: tenacity.RetryCallState) -> float | None:
            error = state.outcome.exception() if state.outcome else None
            if not isinstance(error, openai.APIStatusError):
                return None
            seconds = sdk._parse_retry_after_header(error.response.headers)
            return None if seconds is None else max(0.0, seconds)

        tries = tenacity.stop_after_attempt(max(1, self._endpoint.max_tries))
        retrying = tenacity.Retrying(
            retry=tenacity.retry_if_exception(is_retried),
            wait=lambda state: _backoff(state) if (seconds := requested_s(state)) is None else seconds,
            stop=lambda state: tries(state) or (requested_s(state) or 0.0) > LONGEST_REQUESTED_S,
            reraise=True,
        )
        try:
            return retrying(attempt)
        except openai.APIError as error:
            raise to_call_error(error, self._endpoint.max_tries, key) from error

    def _key(self) -> str:
        name = self._endpoint.api_key_env
        try:
            key = secret(name)
        except SecretError as error:
            raise errors.MissingKeyError(str(error)) from None
        if not key:
            raise errors.MissingKeyError(f"neither {name} nor the file named by {name}_FILE holds a key")
        if not (key.isascii() and key.isprintable()):
            raise errors.MissingKeyError(f"what {name} holds is no key: it has other than printable ASCII characters")
        return key


_UNUSABLE = {
    "refusal": "the model refused: {}",
    "content_filter": "the endpoint's content filter cut the reply",
    "length": "the reply was cut at max_completion_tokens",
}


@lru_cache(maxsize=8)
def _sdk(key: str, url: str, timeout_s: float, most: int) -> openai.OpenAI:
    """One for each address, key and limit of bytes in a process: it takes 20 ms to create."""
    import openai

    from tasks.common.http import bounded_client, http_url

    client, address = bounded_client(url, timeout_s, most), http_url(url, api_path(url, ""))
    return openai.OpenAI(api_key=key, base_url=address, timeout=timeout_s, max_retries=0, http_client=client)


class Message(TypedDict):
    content: NotRequired[str | None]
    refusal: NotRequired[str | None]


class Choice(TypedDict):
    message: Message
    finish_reason: NotRequired[Any]


class Completion(TypedDict):
    """What is read of a completion.  The SDK's own models check no types, and take 500 times the memory."""

    choices: Annotated[list[Choice], Field(min_length=1), FailFast()]
    system_fingerprint: NotRequired[str | None]
    usage: NotRequired[Any]


def read_completion(body: bytes, headers: Mapping[str, str]) -> Completion:
    """The completion that a reply with status 200 holds."""
    try:
        found: Completion = check_value(Completion, json.loads(body))
    except InvalidData as error:
        raise errors.RejectedError(f"the endpoint's answer is not a chat completion: {error}") from None
    except (ValueError, RecursionError) as error:
        if "json" not in headers.get("content-type", "json"):
            said = escape_control(body[:200].decode("utf-8", "replace"))
            raise errors.RejectedError(f"the endpoint's answer is not a chat completion: {said}") from None
        reason = f"{type(error).__name__} {error}"[:300]
        raise errors.UnavailableError(f"the endpoint's answer is not JSON: {reason}") from error
    return found


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


# When a failed attempt is repeated, after how long, and which error a call ends with.


def is_retried(error: BaseException) -> bool:
    """408, 409, 429, 5xx, no connection, no reply in time.

    Never `insufficient_quota`, which is a 429 too, nor a reply that is too large: the same request gives it again.
    """
    import openai

    if isinstance(error, openai.APIStatusError):
        return not _is_quota(error) and (error.status_code in RETRIED_STATUS or error.status_code >= 500)
    return isinstance(error, openai.APIConnectionError | errors.UnavailableError) and not _is_oversized(error)


def is_unbilled(error: BaseException) -> bool:
    """Whether a failed attempt was certainly not billed: it was refused, or never reached the endpoint.

    After a timeout or a broken connection the endpoint may have answered.
    """
    import openai

    is_refused = isinstance(error, openai.APIStatusError | errors.RejectedError)
    return is_refused or type(error.__cause__).__name__ in NOT_SENT


def to_call_error(error: openai.APIError, max_tries: int, key: str) -> errors.CallError:
    """The CallError for an error of the SDK. The key is removed from the message: some endpoints repeat it."""
    import openai

    if isinstance(error, openai.APIStatusError):
        return _of_status(error, max_tries, key)
    if isinstance(error, openai.APITimeoutError):
        return errors.UnavailableError(f"no reply in time, tried {max_tries} times")
    if _is_oversized(error):
        return errors.UnusableReplyError(f"the endpoint ignores max_completion_tokens: {error.__cause__}")
    if isinstance(error, openai.APIConnectionError):
        return errors.UnavailableError(f"no connection ({error.__cause__ or error}), tried {max_tries} times")
    return errors.RejectedError(f"the endpoint's answer is not a completion ({error})")


def _of_status(error: openai.APIStatusError, max_tries: int, key: str) -> errors.CallError:
    from tasks.common.http import redirect_of

    said = error.body.get("message") if isinstance(error.body, dict) else None
    if location := redirect_of(error.response):
        said = f"it redirects to {location}, which is not followed"
    message = f"HTTP {error.status_code}: " + str(said or error.message)[:300].replace(key, "[key]")
    if _is_quota(error):
        return errors.RejectedError(f"the account's credit is used up ({message})")
    if error.status_code == 429:
        return errors.UnavailableError(f"rate limited ({message}), tried up to {max_tries} times")
    if error.code == NO_RULE:
        return errors.NoRuleError(message)
    if error.status_code == 400 and (error.code == CONTEXT_EXCEEDED or "context length" in message):
        return errors.ContextExceededError(f"the prompt is too long for the model ({message})")
    if is_retried(error):
        return errors.UnavailableError(f"the endpoint fails ({message}), tried up to {max_tries} times")
    return errors.RejectedError(f"the endpoint does not take the request ({message})")


def _is_oversized(error: BaseException) -> bool:
    return type(error.__cause__).__name__ == "OversizedReply"


def _is_quota(error: openai.APIStatusError) -> bool:
    return "insufficient_quota" in (error.code, error.type)
