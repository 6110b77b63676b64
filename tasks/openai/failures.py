"""How an attempt fails at a server: what it says, whether that is repeated, and which error the call ends with."""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, Any

from tasks.common.logs import redacted
from tasks.common.text import escape_control, quote
from tasks.openai import endpoint as errors

if TYPE_CHECKING:
    import httpx2

RETRIED_STATUS = frozenset({408, 409, 429})
FILTERS = re.compile("content_?(filter|policy)|inspection_?failed|responsible_?ai|safety|moderation", re.IGNORECASE)
"""In how servers name what their filter refuses: content_filter, content_policy_violation, data_inspection_failed."""
NOT_SENT = frozenset({"ConnectError", "ConnectTimeout", "ProxyError", "UnsupportedProtocol"})  # errors of httpx2


class Refused(Exception):
    """A server has answered with an error.  `said` is its reason, `codes` how it names it."""

    def __init__(self, response: httpx2.Response, status: int, is_paid: bool = False) -> None:
        super().__init__(status)
        self.status, self.headers, self.url, self.is_paid = status, response.headers, str(response.url), is_paid
        try:
            text = response.read().decode("utf-8", "replace")
            body = json.loads(text)
        except (ValueError, RecursionError):
            body = text
        error = body.get("error", body) if isinstance(body, dict) else body
        if isinstance(body, dict) and body.get("choices"):  # OpenRouter's place for what failed in the middle
            error = body = body["choices"][0]
        self.codes = {str(error.get(name)) for name in ("code", "type")} if isinstance(error, dict) else set()
        self.said = escape_control(said_of(body))
        written = error.get("failed_generation") if isinstance(error, dict) else None
        self.written = written if isinstance(written, str) else ""

    @property
    def is_filtered(self) -> bool:
        is_named = self.status in (400, 403, 422, 451) and any(map(FILTERS.search, self.codes))
        # LiteLLM's proxy has its exception's name in the message, and a code that is the status
        is_told = self.status == 400 and "ContentPolicyViolationError" in self.said
        return is_named or is_told or (self.status == 403 and "flagged" in self.said)

    @property
    def is_invalid_reply(self) -> bool:
        """Whether the request was taken, and the model's reply to it is not of the requested form: so says Groq.

        LiteLLM's proxy has the body of the server behind it in its message.
        """
        return self.status == 400 and any("json_validate_failed" in said for said in (*self.codes, self.said))


def address_of(url: str) -> str:
    """What to say where an address is perhaps none of an endpoint."""
    return f"asked for was {redacted(url)}" + ("" if "/v1" in url else ": most end with /v1")


def said_of(body: Any) -> str:
    """The reason in the body of an error.

    OpenAI: {"error": {"message"}}; vLLM: {"message"}; LM Studio: {"error": TEXT}; OpenRouter: {"error": {"message",
    "metadata": {"raw"}}}; FastAPI: {"detail": [{"loc", "msg"}]}.
    """
    if isinstance(body, str):
        return body
    if isinstance(body, list):
        return "; ".join(filter(None, map(said_of, body)))
    if not isinstance(body, dict):
        return ""
    said = next((text for name in ("message", "msg", "error", "detail") if (text := said_of(body.get(name)))), "")
    if isinstance(body.get("loc"), list):
        said = f"{'.'.join(map(str, body['loc']))}: {said}"
    metadata = body.get("metadata")
    raw = said_of(metadata.get("raw")) if isinstance(metadata, dict) else ""
    return f"{said} ({raw})" if raw else said


def is_retried(error: BaseException) -> bool:
    """408, 409, 429, 5xx, no connection, no reply in time.

    Never `insufficient_quota`, which is a 429 too, nor a reply that is too large: the same request gives it again.
    """
    import openai

    if isinstance(error, Refused):
        return "insufficient_quota" not in error.codes and (error.status in RETRIED_STATUS or error.status >= 500)
    return isinstance(error, openai.APIConnectionError | errors.UnavailableError) and not _is_oversized(error)


def is_unbilled(error: BaseException) -> bool:
    """Whether a failed attempt was certainly not billed: it was refused, or never reached the endpoint.

    After a timeout or a broken connection the endpoint may have answered.
    """
    if isinstance(error, Refused):
        return not (error.is_paid or error.is_invalid_reply)
    return isinstance(error, errors.RejectedError) or type(error.__cause__).__name__ in NOT_SENT


def to_call_error(error: Exception, max_tries: int, key: str) -> errors.CallError:
    """The CallError for what an attempt has raised.  The key is removed: some endpoints repeat it."""
    import openai

    if isinstance(error, Refused):
        return _of_refusal(error, max_tries, key)
    if isinstance(error, openai.APITimeoutError):
        return errors.UnavailableError(f"no reply in time, tried {max_tries} times")
    if _is_oversized(error):
        return errors.UnusableReplyError(f"the endpoint ignores max_completion_tokens: {error.__cause__}")
    if isinstance(error, openai.APIConnectionError):
        return errors.UnavailableError(f"no connection ({error.__cause__ or error}), tried {max_tries} times")
    return errors.RejectedError(f"the endpoint's answer is not a completion ({error})")


def _of_refusal(error: Refused, max_tries: int, key: str) -> errors.CallError:
    said, status = error.said[:300], error.status
    if 300 <= status < 400:
        said = f"it redirects to {redacted(error.headers.get('location', ''))[:200]}, which is not followed"
    if status in (404, 405):
        said = f"{said}; {address_of(error.url)}"
    message = (f"HTTP {status}: {escape_control(said)}" if said else f"HTTP {status}").replace(key, "[key]")
    if error.is_invalid_reply:
        reason = f"the endpoint finds the reply not of its form ({message}); it is {quote(error.written)}"
        return errors.UnusableReplyError(reason.replace(key, "[key]"), error.written.replace(key, "[key]"))
    tried = f"tried up to {max_tries} times"
    is_long = status == 400 and (errors.CONTEXT_EXCEEDED in error.codes or "context length" in message)
    kinds: list[tuple[bool, type[errors.CallError], str]] = [
        ("insufficient_quota" in error.codes, errors.RejectedError, f"the account's credit is used up ({message})"),
        (status == 429, errors.UnavailableError, f"rate limited ({message}), {tried}"),
        (error.is_filtered, errors.UnusableReplyError, f"the endpoint's content filter refuses the prompt ({message})"),
        (is_long, errors.ContextExceededError, f"the prompt is too long for the model ({message})"),
        (is_retried(error), errors.UnavailableError, f"the endpoint fails ({message}), {tried}"),
        (True, errors.RejectedError, f"the endpoint does not take the request ({message})"),
    ]
    return next(kind(text) for holds, kind, text in kinds if holds)


def _is_oversized(error: BaseException) -> bool:
    return type(error.__cause__).__name__ == "OversizedReply"
