"""The errors of a call: a class for each outcome that callers distinguish.

All hold strings only, so they survive pickle and Celery's JSON; `str` is one readable line.  No error is ever counted
as a wrong answer or as fitness 0: a caller that cannot handle it lets it propagate.
"""

from __future__ import annotations


class CallError(Exception):
    """A call that gave no usable answer.

    `message` is the reason.  `raw` is the text of the reply where there was one, for the prompt log.
    """

    def __init__(self, message: str, raw: str = "") -> None:
        super().__init__(message, raw)
        self.message = " ".join(message.split())
        self.raw = raw

    def __str__(self) -> str:
        return self.message


class UnavailableError(CallError):
    """No reply in any attempt: HTTP 408, 409, 429 or 5xx, no connection, or none in time.  It may pass."""


class BudgetSpent(CallError):
    """The run has reached its budget; it parks until the budget is raised."""


class RejectedError(CallError):
    """Any other 4xx: a wrong key, no credit left, an unknown model, a request that the endpoint does not take."""


class ContextExceededError(RejectedError):
    """The endpoint counts more tokens than the model's context has. A shorter prompt may fit."""


class NoRuleError(RejectedError):
    """The embedded endpoint has no rule for this question."""


class MissingKeyError(CallError):
    """The environment variable that should hold the key is not set."""


class PromptTooLong(CallError):
    """The prompt does not fit the model's context or the endpoint's tokens a minute.  Nothing was sent."""


class UnusableReplyError(CallError):
    """A reply arrived, but it was refused, cut, or is not of its schema. Another seed may give a usable one."""
