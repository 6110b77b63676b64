"""What calls used, and what that costs."""

from __future__ import annotations

from dataclasses import dataclass

from tasks.models import Endpoint

TOKENS_PER_PRICE = 1_000_000


@dataclass(frozen=True)
class Usage:
    """Counts of one call or of many, as the endpoint reported them.

    requests    tries sent, answered or not
    prompt      prompt tokens, `cached` among them
    cached      prompt tokens that the endpoint had cached
    completion  tokens written, `reasoning` among them
    reasoning   tokens written that are not part of the reply
    """

    requests: int = 0
    prompt: int = 0
    cached: int = 0
    completion: int = 0
    reasoning: int = 0

    def __add__(self, other: Usage) -> Usage:
        return Usage(
            self.requests + other.requests,
            self.prompt + other.prompt,
            self.cached + other.cached,
            self.completion + other.completion,
            self.reasoning + other.reasoning,
        )


def cost_usd(usage: Usage, endpoint: Endpoint) -> float:
    """US dollars. Cached prompt tokens have a price of their own; reasoning tokens are completion tokens."""
    dollars = (
        (usage.prompt - usage.cached) * endpoint.price_prompt
        + usage.cached * endpoint.price_cached
        + usage.completion * endpoint.price_completion
    )
    return dollars / TOKENS_PER_PRICE


def estimate_tokens(text: str) -> int:
    """About how many tokens `text` has: one for every four bytes of UTF-8, rounded up.

    For limits, which must be charged before the endpoint counts; never for fitness.
    """
    return -(-len(text.encode("utf-8", "replace")) // 4)
