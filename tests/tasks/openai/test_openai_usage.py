"""What the tokens of calls cost, and estimates of their number."""

from __future__ import annotations

import pytest

from tasks.common.text import estimate_tokens
from tasks.openai.endpoint import Usage, cost_usd
from tasks.records import Endpoint


def test_cost_counts_cached_tokens_at_their_own_price():
    endpoint = Endpoint("", "K", 1, 1, 0, 0, price_prompt=2.0, price_cached=0.5, price_completion=8.0, budget_usd=0)
    used = Usage(1, prompt=700_000, cached=200_000, completion=100_000, reasoning=60_000) + Usage(1, 300_000)
    assert used.requests == 2
    assert cost_usd(used, endpoint) == pytest.approx(0.8 * 2.0 + 0.2 * 0.5 + 0.1 * 8.0)


def test_token_estimates_round_up():
    assert [estimate_tokens(text) for text in ("", "a", "abcd", "abcde", "ééé")] == [0, 1, 1, 2, 2]
