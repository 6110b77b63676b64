"""When a failed try is made again, after how long, and what a failure is called in the end."""

from __future__ import annotations

import email.utils
import time
from collections.abc import Mapping
from typing import Any

import openai
import tenacity

from tasks.openai import errors
from tasks.openai.provider import NO_RULE

RETRIED_STATUS = frozenset({408, 409, 429})
LONGEST_BACKOFF_S = 30.0
# What httpx and its successor call a try that never reached the endpoint; the SDK may use either.
NOT_SENT = frozenset({"ConnectError", "ConnectTimeout", "PoolTimeout", "UnsupportedProtocol"})
# Nobody sleeps in a worker for longer than this: the call fails as transient, and the farm decides.
LONGEST_ASKED_S = 300.0


def policy(max_tries: int) -> dict[str, Any]:
    """Arguments for `tenacity.Retrying`."""
    tries = tenacity.stop_after_attempt(max(1, max_tries))
    return {
        "retry": tenacity.retry_if_exception(is_retried),
        "wait": _wait,
        "stop": lambda state: tries(state) or _asked_too_long(state),
        "reraise": True,
    }


def is_retried(error: BaseException) -> bool:
    """408, 409, 429, 5xx, no connection, no reply in time; never `insufficient_quota`, which is a 429 too."""
    if isinstance(error, openai.APIStatusError):
        if _is_quota(error):
            return False
        return error.status_code in RETRIED_STATUS or error.status_code >= 500
    return isinstance(error, openai.APIConnectionError | errors.UnavailableError)


def is_unbilled(error: BaseException) -> bool:
    """Whether a try that failed like this was certainly not paid: it was refused, or never arrived.

    After a timeout, or a connection that broke, the endpoint may have answered all the same.
    """
    is_refused = isinstance(error, openai.APIStatusError | errors.RejectedError)
    return is_refused or type(error.__cause__).__name__ in NOT_SENT


def asked_wait(headers: Mapping[str, str], now: float) -> float | None:
    """Seconds that the endpoint asks to wait: `retry-after-ms`, else `retry-after` (seconds or an HTTP date).

    `now` in seconds since 1970.  None where it asks for nothing that can be read.
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


def named(error: openai.APIError, max_tries: int, key: str) -> errors.CallError:
    """The project's own error for the SDK's. Some endpoints repeat the key in what they say: it is taken out."""
    if isinstance(error, openai.APIStatusError):
        return _named_status(error, max_tries, _said(error).replace(key, "[key]"))
    if isinstance(error, openai.APITimeoutError):
        return errors.TimedOutError(f"no reply in time, tried {max_tries} times")
    if isinstance(error, openai.APIConnectionError):
        return errors.UnavailableError(f"no connection ({error.__cause__ or error}), tried {max_tries} times")
    return errors.RejectedError(f"the endpoint's answer is not a completion ({error})")


def _named_status(error: openai.APIStatusError, max_tries: int, said: str) -> errors.CallError:
    said = f"HTTP {error.status_code}: {said}"
    if _is_quota(error):
        return errors.QuotaExhaustedError(f"the account's credit is used up ({said})")
    if error.status_code == 429:
        return errors.RateLimitedError(f"rate limited ({said}), tried up to {max_tries} times")
    if error.code == NO_RULE:
        return errors.NoRuleError(said)
    if is_retried(error):
        return errors.UnavailableError(f"the endpoint fails ({said}), tried up to {max_tries} times")
    return errors.RejectedError(f"the endpoint does not take the request ({said})")


_backoff = tenacity.wait_random_exponential(multiplier=0.5, max=LONGEST_BACKOFF_S)


def _wait(state: tenacity.RetryCallState) -> float:
    asked = _asked(state)
    return _backoff(state) if asked is None else asked


def _asked_too_long(state: tenacity.RetryCallState) -> bool:
    return (_asked(state) or 0.0) > LONGEST_ASKED_S


def _asked(state: tenacity.RetryCallState) -> float | None:
    error = state.outcome.exception() if state.outcome else None
    if not isinstance(error, openai.APIStatusError):
        return None
    return asked_wait(error.response.headers, time.time())


def _is_quota(error: openai.APIStatusError) -> bool:
    return "insufficient_quota" in (error.code, error.type)


def _said(error: openai.APIStatusError) -> str:
    """What the endpoint said, short; its body when it is no JSON of OpenAI's shape."""
    body = error.body
    said = body.get("message") if isinstance(body, dict) else None
    return str(said or error.message)[:300]
