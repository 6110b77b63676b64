"""The one client for OpenAI-compatible endpoints: Chat Completions, strict schema, one layer of retries.

The SDK's own are off; tenacity waits as long as the endpoint asks for, or else a growing random time.
"""

from __future__ import annotations

import json
import logging
import re
from collections.abc import Mapping
from functools import lru_cache
from typing import TYPE_CHECKING, Any, TypeVar
from urllib.parse import parse_qsl, urlsplit, urlunsplit

import tenacity

from tasks.common.logs import SecretError, redacted, secret
from tasks.common.text import escape_control, estimate_tokens, quote
from tasks.common.validation import InvalidData, ReplyModel, check_value, parse_json, reply_bytes
from tasks.openai.endpoint import (
    MissingKeyError,
    RejectedError,
    UnavailableError,
    UnusableReplyError,
    Usage,
    api_path,
    provider_of,
    url_of,
)
from tasks.openai.failures import Refused, address_of, is_retried, is_unbilled, to_call_error
from tasks.openai.limits import Limits
from tasks.openai.reply import ONLY_TOOLS, Completion, Reply, finish_of, text_of, usable_text, usage_of
from tasks.records import Endpoint, Judge, Reflector

if TYPE_CHECKING:
    import openai

log = logging.getLogger(__name__)
LONGEST_BACKOFF_S = 30.0
# When the endpoint asks for a longer wait, the call fails as unavailable, and the run parks.
LONGEST_REQUESTED_S = 300.0
_backoff = tenacity.wait_random_exponential(multiplier=0.5, max=LONGEST_BACKOFF_S)
_UNUSABLE = {
    "refusal": "the model refused: {}",
    "content_filter": "the endpoint's content filter cut the reply",
    "length": "the reply was cut at max_completion_tokens",
    ONLY_TOOLS: "the reply has tool calls and no text",
}
_COMMENTS = re.compile(rb"\A(?:\s*:[^\n]*\n)+")  # of OpenRouter, which keep a connection open

R = TypeVar("R", bound=ReplyModel)
Messages = tuple[str, str]  # system and user


class OpenAIClient:
    """Calls an endpoint. Safe to share between threads; the key is read for each call."""

    def __init__(self, endpoint: Endpoint, limits: Limits) -> None:
        self._endpoint, self._limits = endpoint, limits

    def ask(
        self, messages: Messages, reply: type[R], settings: Reflector | Judge, call_id: str, repeated: int = 0
    ) -> tuple[R, Reply]:
        """One answer in the form of `reply`, requested as `write` does."""
        from openai.lib._pydantic import to_strict_json_schema

        written = self.write(messages, reply.schema_name, to_strict_json_schema(reply), settings, call_id, repeated)
        about = written.text, written.system_fingerprint, written.provider
        if written.finish in _UNUSABLE:
            raise UnusableReplyError(_UNUSABLE[written.finish].format(written.text), *about)
        try:
            return parse_json(reply, usable_text(reply, written.text)), written
        except InvalidData as error:
            reason = f"the reply does not fit its schema: {error}; it is {quote(written.text)}"
            raise UnusableReplyError(reason, *about) from None

    def write(
        self,
        messages: Messages,
        name: str,
        schema: Mapping[str, Any],
        settings: Reflector | Judge,
        call_id: str,
        repeated: int = 0,
    ) -> Reply:
        """One answer as it came, requested in the form of a strict schema of this name.

        What was asked `repeated` times before has another seed and id.
        All attempts carry `call_id` as `Idempotency-Key`, so that endpoints and logs can tell a repeated call from a
        new one.  `temperature`, `top_p` and `seed` are not sent when they are None: reasoning models refuse them.
        """
        call_id, seed = f"{call_id}-{repeated + 1}" if repeated else call_id, settings.seed
        seed = None if seed is None else seed + repeated
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
        return Reply(
            text=choice["message"].get("refusal") or text_of(choice["message"]),
            finish=finish_of(choice),
            usage=usage_of(completion),
            system_fingerprint=fingerprint,
            provider=provider_of(fingerprint, settings.model),
        )

    def _complete(self, most: Usage, request: dict[str, Any]) -> Completion:
        import openai  # here, since it takes half a second, and not every process calls

        key, url, model = _key_in(self._endpoint.api_key_env), url_of(self._endpoint), request["model"]
        sdk = _sdk(key, url, self._endpoint.timeout_s, reply_bytes(most.completion))
        replacements, asked = _replacements.setdefault((url, model), []), request

        def attempt() -> Completion:
            nonlocal asked  # as it is sent: another thread may learn a replacement before the answer
            call, asked = self._limits.begin(most), adapted(request, replacements)
            try:
                completion = _send(sdk, asked)
            except BaseException as error:
                self._limits.settle(call, model, Usage() if is_unbilled(error) else None)
                raise
            used = usage_of(completion)
            provider = provider_of(completion.get("system_fingerprint") or "", model)
            is_told = used.prompt and (used.completion or not text_of(completion["choices"][0]["message"]))
            self._limits.settle(call, provider, used if is_told else None)  # without counts at its most
            return completion

        def requested_s(state: tenacity.RetryCallState) -> float | None:
            error = state.outcome.exception() if state.outcome else None
            seconds = sdk._parse_retry_after_header(error.headers) if isinstance(error, Refused) else None
            return None if seconds is None else max(0.0, seconds)

        tries = tenacity.stop_after_attempt(max(1, self._endpoint.max_tries))
        retrying = tenacity.Retrying(
            retry=tenacity.retry_if_exception(is_retried),
            wait=lambda state: _backoff(state) if (seconds := requested_s(state)) is None else seconds,
            stop=lambda state: tries(state) or (requested_s(state) or 0.0) > LONGEST_REQUESTED_S,
            reraise=True,
        )
        while True:
            try:
                return retrying(attempt)
            except (openai.APIError, Refused) as error:
                instead = replacement_for(error, asked)
                if instead is None:
                    raise to_call_error(error, self._endpoint.max_tries, key) from error
                if instead not in replacements:
                    replacements.append(instead)
                    log.warning("%s refuses a part of the request; it is asked for %s now", redacted(url), instead)


def _key_in(name: str) -> str:
    try:
        key = secret(name)
    except SecretError as error:
        raise MissingKeyError(str(error)) from None
    if not key:
        raise MissingKeyError(f"neither {name} nor the file named by {name}_FILE holds a key")
    if not (key.isascii() and key.isprintable()):
        raise MissingKeyError(f"what {name} holds is no key: it has other than printable ASCII characters")
    return key


@lru_cache(maxsize=8)
def _sdk(key: str, url: str, timeout_s: float, most: int) -> openai.OpenAI:
    """One for each address, key and limit of bytes in a process: it takes 20 ms to create."""
    import openai

    from tasks.common.http import bounded_client, http_url

    parts = urlsplit(http_url(url, api_path(url, "")))
    query = dict(parse_qsl(parts.query))  # of Azure: ?api-version=..., which belongs to each request
    address = parts._replace(path=parts.path.rstrip("/").removesuffix("/chat/completions"), query="")
    return openai.OpenAI(
        api_key=key,
        base_url=urlunsplit(address),
        default_query=query,
        default_headers={"api-key": key} if "api-version" in query else {},
        timeout=timeout_s,
        max_retries=0,
        http_client=bounded_client(url, timeout_s, most),
    )


def _send(sdk: openai.OpenAI, request: Mapping[str, Any]) -> Completion:
    import openai

    try:
        response = sdk.chat.completions.with_raw_response.create(**request).http_response
    except openai.APIStatusError as error:
        raise Refused(error.response, error.response.status_code) from error
    try:
        found = json.loads(_COMMENTS.sub(b"", response.content))
    except (ValueError, RecursionError) as error:
        if "json" not in response.headers.get("content-type", "json"):
            said = f"{escape_control(response.text[:200])}; {address_of(str(response.url))}"
            raise RejectedError(f"the endpoint's answer is not a chat completion: {said}") from None
        reason = f"{type(error).__name__} {error}"[:300]
        raise UnavailableError(f"the endpoint's answer is not JSON: {reason}") from error
    if isinstance(found, dict):  # an error may come after the status had been sent, in the body or in its one choice
        choices = found.get("choices")
        failed = choices[0].get("error") if choices and isinstance(choices[0], dict) else found.get("error")
        if failed is not None:
            code = str(failed.get("code")) if isinstance(failed, dict) else ""
            raise Refused(response, int(code) if re.fullmatch("[45][0-9][0-9]", code) else 500, is_paid=True)
    try:
        completion: Completion = check_value(Completion, found)
    except InvalidData as error:
        raise RejectedError(f"the endpoint's answer is not a chat completion: {error}") from None
    return completion


# What a server may not know, and what is sent in its place.
MAX_TOKENS, JSON_OBJECT, NO_FORM = "max_tokens", "JSON without a schema", "no form of a reply"
_replacements: dict[tuple[str, str], list[str]] = {}  # of this process, by address and model


def replacement_for(error: Exception, request: Mapping[str, Any]) -> str | None:
    """What to ask for instead, where a server has refused a part of the request that not all know."""
    if not isinstance(error, Refused) or error.status not in (400, 422) or error.is_invalid_reply:
        return None
    if "max_completion_tokens" in error.said and "max_completion_tokens" in request:
        return MAX_TOKENS
    if "response_format" in request and any(word in error.said for word in ("response_format", "schema")):
        return JSON_OBJECT if request["response_format"]["type"] == "json_schema" else NO_FORM
    return None


def adapted(request: Mapping[str, Any], replacements: list[str]) -> dict[str, Any]:
    """The request for a server that has refused parts of it before."""
    asked = dict(request)
    if MAX_TOKENS in replacements:
        asked["max_tokens"] = asked.pop("max_completion_tokens")
    if JSON_OBJECT in replacements:
        schema = asked["response_format"]["json_schema"]["schema"]
        system, *others = asked["messages"]
        told = f"{system['content']}\nThe JSON Schema of your reply: {json.dumps(schema)}\n"
        asked |= {"messages": [system | {"content": told}, *others], "response_format": {"type": "json_object"}}
    if NO_FORM in replacements:
        del asked["response_format"]
    return asked
