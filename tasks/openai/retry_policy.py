"""When a failed attempt is repeated, after how long, and which error a call ends with."""

from __future__ import annotations

import email.utils
import time
from collections.abc import Mapping
from typing import Any

import openai
import tenacity

from tasks.common.http import OversizedReply
from tasks.common.text import escape_control
from tasks.openai import endpoint as errors
from tasks.openai.endpoint import CONTEXT_EXCEEDED, NO_RULE
from tasks.store.client import redacted

RETRIED_STATUS = frozenset({408, 409, 429})
LONGEST_BACKOFF_S = 30.0
NOT_SENT = frozenset({"ConnectError", "ConnectTimeout", "ProxyError", "UnsupportedProtocol"})  # errors of httpx2
# When the endpoint asks for a longer wait, the call fails as transient and the task is retried later.
LONGEST_REQUESTED_S = 300.0


def retry_options(max_tries: int) -> dict[str, Any]:
    """Arguments for `tenacity.Retrying`."""
    tries = tenacity.stop_after_attempt(max(1, max_tries))
    return {
        "retry": tenacity.retry_if_exception(is_retried),
        "wait": _wait,
        "stop": lambda state: tries(state) or _wait_too_long(state),
        "reraise": True,
    }


def is_retried(error: BaseException) -> bool:
    """408, 409, 429, 5xx, no connection, no reply in time.

    Never `insufficient_quota`, which is a 429 too, nor a reply that is too large: the same request gives it again.
    """
    if isinstance(error, openai.APIStatusError):
        if _is_quota(error):
            return False
        return error.status_code in RETRIED_STATUS or error.status_code >= 500
    if isinstance(error.__cause__, OversizedReply):
        return False
    return isinstance(error, openai.APIConnectionError | errors.UnavailableError)


def is_unbilled(error: BaseException) -> bool:
    """Whether a failed attempt was certainly not billed: it was refused, or never reached the endpoint.

    After a timeout or a broken connection the endpoint may have answered.
    """
    is_refused = isinstance(error, openai.APIStatusError | errors.RejectedError)
    return is_refused or type(error.__cause__).__name__ in NOT_SENT


def requested_wait_s(headers: Mapping[str, str], now: float) -> float | None:
    """Seconds that the endpoint asks to wait: `retry-after-ms`, else `retry-after` (seconds or an HTTP date).

    `now` in seconds since 1970.  None without a readable value.
    """
    for name, scale in (("retry-after-ms", 0.001), ("retry-after", 1.0)):
        try:
            seconds = float(headers.get(name, "")) * scale
        except ValueError:
            continue
        if 0 <= seconds < float("inf"):
            return seconds
    try:
        return max(0.0, email.utils.parsedate_to_datetime(headers.get("retry-after", "")).timestamp() - now)
    except (TypeError, ValueError):
        return None


def to_call_error(error: openai.APIError, max_tries: int, key: str) -> errors.CallError:
    """The CallError for an error of the SDK. The key is removed from the message: some endpoints repeat it."""
    if isinstance(error, openai.APIStatusError):
        return _status_to_call_error(error, max_tries, _message(error).replace(key, "[key]"))
    if isinstance(error, openai.APITimeoutError):
        return errors.UnavailableError(f"no reply in time, tried {max_tries} times")
    if isinstance(error.__cause__, OversizedReply):
        return errors.UnusableReplyError(f"the endpoint ignores max_completion_tokens: {error.__cause__}")
    if isinstance(error, openai.APIConnectionError):
        return errors.UnavailableError(f"no connection ({error.__cause__ or error}), tried {max_tries} times")
    return errors.RejectedError(f"the endpoint's answer is not a completion ({error})")


def _status_to_call_error(error: openai.APIStatusError, max_tries: int, message: str) -> errors.CallError:
    if location := error.response.headers.get("location", "") if error.status_code < 400 else "":
        message = f"it redirects to {escape_control(redacted(location))[:200]}, which is not followed"
    message = f"HTTP {error.status_code}: {message}"
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


_backoff = tenacity.wait_random_exponential(multiplier=0.5, max=LONGEST_BACKOFF_S)


def _wait(state: tenacity.RetryCallState) -> float:
    requested = _requested(state)
    return _backoff(state) if requested is None else requested


def _wait_too_long(state: tenacity.RetryCallState) -> bool:
    return (_requested(state) or 0.0) > LONGEST_REQUESTED_S


def _requested(state: tenacity.RetryCallState) -> float | None:
    error = state.outcome.exception() if state.outcome else None
    if not isinstance(error, openai.APIStatusError):
        return None
    return requested_wait_s(error.response.headers, time.time())


def _is_quota(error: openai.APIStatusError) -> bool:
    return "insufficient_quota" in (error.code, error.type)


def _message(error: openai.APIStatusError) -> str:
    """The endpoint's message, cut to 300 characters; the SDK's own when the body is not JSON of OpenAI's shape."""
    body = error.body
    message = body.get("message") if isinstance(body, dict) else None
    return str(message or error.message)[:300]
