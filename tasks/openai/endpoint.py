"""An OpenAI-compatible endpoint: its address, who answers there, what its tokens cost, and how a call can fail.

Who answers is a language model or the rules of the embedded endpoint, told apart by the system fingerprint of a reply.
"""

from __future__ import annotations

import os
from collections.abc import Iterable
from dataclasses import astuple, dataclass
from typing import Literal

from tasks.common.files import unix_path
from tasks.records import Endpoint

DEFAULT_BASE_URL = "https://api.openai.com/v1"
EMBEDDED = "embedded"
NAME_VARIABLE = "WHETSTONE_ENDPOINT"  # names the endpoint at OPENAI_BASE_URL, where that changes with each start

RULES_FINGERPRINT = "whetstone-rules"  # the embedded endpoint's fingerprints begin with it
CONTEXT_EXCEEDED = "context_length_exceeded"  # OpenAI's code for a prompt that is longer than the model's context
RULES = "rules of the embedded endpoint (no language model)"
NO_MODEL = "no model: no call was needed, or none was answered"
TOKENS_PER_PRICE = 1_000_000

Role = Literal["reflector", "judge"]


def url_of(endpoint: Endpoint) -> str:
    """The address to call, with /v1 at its end; that of a farm's own endpoint is a Unix socket (`unix_url`)."""
    return endpoint.base_url or os.environ.get("OPENAI_BASE_URL") or DEFAULT_BASE_URL


def api_path(url: str, path: str) -> str:
    """Where a path of the API is below an address: that of a socket cannot end with /v1."""
    return f"/v1{path}" if unix_path(url) is not None else path


def name_of(endpoint: Endpoint) -> str:
    """The lasting name of the endpoint, for content keys: a reply of one endpoint is not a reply of another."""
    return (not endpoint.base_url and os.environ.get(NAME_VARIABLE)) or url_of(endpoint)


def provider_of(system_fingerprint: str, model: str) -> str:
    """Who wrote a reply with this fingerprint, when `model` was requested."""
    return RULES if system_fingerprint.startswith(RULES_FINGERPRINT) else model


def join_providers(names: Iterable[str]) -> str:
    return " and ".join(sorted({*names} - {""})) or NO_MODEL


@dataclass(frozen=True)
class Usage:
    """Counts of one call or of many, as the endpoint reports them."""

    requests: int = 0  # attempts sent, answered or not
    prompt: int = 0  # tokens, `cached` among them
    cached: int = 0  # prompt tokens that the endpoint had cached
    completion: int = 0  # tokens written, `reasoning` among them
    reasoning: int = 0  # tokens written that are not part of the reply

    def __add__(self, other: Usage) -> Usage:
        return Usage(*map(sum, zip(astuple(self), astuple(other), strict=True)))


def is_priced(endpoint: Endpoint) -> bool:
    """Whether the cost of a call is known."""
    return None not in (endpoint.price_prompt, endpoint.price_cached, endpoint.price_completion)


def cost_usd(usage: Usage, endpoint: Endpoint) -> float:
    """The cost in US dollars; an unknown price counts as 0."""
    dollars = (
        (usage.prompt - usage.cached) * (endpoint.price_prompt or 0)
        + usage.cached * (endpoint.price_cached or 0)
        + usage.completion * (endpoint.price_completion or 0)
    )
    return dollars / TOKENS_PER_PRICE


class CallError(Exception):
    """A call that gave no usable answer; where there was a reply, with its text, its fingerprint and who wrote it."""

    def __init__(self, message: str, raw: str = "", system_fingerprint: str = "", provider: str = "") -> None:
        super().__init__(message, raw, system_fingerprint, provider)
        self.message = " ".join(message.split())
        self.raw, self.system_fingerprint, self.provider = raw, system_fingerprint, provider

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


class MissingKeyError(CallError):
    """The environment variable that should hold the key is not set."""


class UnusableReplyError(CallError):
    """A reply arrived, but it was refused, cut, or is not of its schema. Another seed may give a usable one."""
