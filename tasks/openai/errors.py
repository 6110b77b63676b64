"""What can go wrong with a call, one class for each outcome that the caller must tell apart.

All are plain exceptions of strings, so they survive pickle and Celery's JSON; `str` is one readable line.  A
transient error may pass by itself: the same call, made later, may be answered.  None is ever a wrong answer or
fitness 0 (spec/README.md, ruling 4): a caller that cannot go on lets it rise.
"""

from __future__ import annotations

from typing import ClassVar


class CallError(Exception):
    """A call that gave no usable answer.

    `message` is the reason.  `raw` is the text of the reply where there was one, for the prompt log.
    """

    is_transient: ClassVar[bool] = False

    def __init__(self, message: str, raw: str = "") -> None:
        super().__init__(message, raw)
        self.message = " ".join(message.split())
        self.raw = raw

    def __str__(self) -> str:
        return self.message


class RateLimitedError(CallError):
    """HTTP 429 that outlasted all tries."""

    is_transient = True


class UnavailableError(CallError):
    """HTTP 408, 409 or 5xx, or no connection, that outlasted all tries."""

    is_transient = True


class TimedOutError(UnavailableError):
    """No reply within the endpoint's timeout, in any of the tries."""


class QuotaExhaustedError(CallError):
    """The account has no credit left (429 `insufficient_quota`). Never retried: waiting does not help."""


class BudgetSpent(CallError):
    """The run has used the money that it was given; it parks until it is given more."""


class RejectedError(CallError):
    """Any other 4xx: a wrong key, an unknown model, a request that the endpoint does not take."""


class NoRuleError(RejectedError):
    """The embedded endpoint was asked, and it has no rule for this question."""


class MissingKeyError(CallError):
    """The environment variable that should hold the key is not set."""


class RefusedError(CallError):
    """The model declined to answer. Never retried blindly."""


class FilteredError(CallError):
    """The endpoint's content filter cut the reply."""


class TruncatedError(CallError):
    """The reply ended at `max_completion_tokens`, so its JSON is not whole."""


class InvalidReplyError(CallError):
    """The reply is whole but not what strict mode promises. The reflector's callers ask once more."""


class InvalidJsonError(InvalidReplyError):
    """The reply is not JSON."""


class SchemaMismatchError(InvalidReplyError):
    """The reply is JSON of another shape."""
