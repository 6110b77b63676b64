"""The errors of a call: a class for each outcome that callers distinguish.

All hold strings only, so they survive pickle and Celery's JSON; `str` is one readable line.  A transient error may
pass: the same call may be answered later.  No error is ever counted as a wrong answer or as fitness 0: a caller that
cannot handle it lets it propagate.
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
    """HTTP 429 in every attempt."""

    is_transient = True


class UnavailableError(CallError):
    """HTTP 408, 409 or 5xx, or no connection, in every attempt."""

    is_transient = True


class TimedOutError(UnavailableError):
    """No reply within the endpoint's timeout, in any of the attempts."""


class QuotaExhaustedError(CallError):
    """The account has no credit left (429 `insufficient_quota`). Never retried: waiting does not help."""


class BudgetSpent(CallError):
    """The run has reached its budget; it parks until the budget is raised."""


class RejectedError(CallError):
    """Any other 4xx: a wrong key, an unknown model, a request that the endpoint does not take."""


class ContextExceededError(RejectedError):
    """The endpoint counts more tokens than the model's context has. A shorter prompt may fit."""


class NoRuleError(RejectedError):
    """The embedded endpoint has no rule for this question."""


class MissingKeyError(CallError):
    """The environment variable that should hold the key is not set."""


class PromptTooLong(CallError):
    """The prompt does not fit the model's context or the endpoint's tokens a minute.  Nothing was sent."""


class UnusableReplyError(CallError):
    """A reply arrived, but it cannot be used. Another seed may give a usable one."""


class RefusedError(UnusableReplyError):
    """The model declined to answer."""


class FilteredError(UnusableReplyError):
    """The endpoint's content filter cut the reply."""


class TruncatedError(UnusableReplyError):
    """The reply ended at `max_completion_tokens`, so its JSON is incomplete."""


class OversizedReplyError(UnusableReplyError):
    """The reply is far larger than what was asked for can be. A caller that could do without a reply fails too."""


class InvalidReplyError(UnusableReplyError):
    """The reply is complete but not as strict mode promises."""


class InvalidJsonError(InvalidReplyError):
    """The reply is not JSON."""


class SchemaMismatchError(InvalidReplyError):
    """The reply is JSON of another shape."""
