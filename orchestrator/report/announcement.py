"""The first line of a run: who reflects and judges, and what this may cost at most."""

from __future__ import annotations

from orchestrator.report.formatting import format_money
from tasks.common.text import escape_control
from tasks.openai.endpoint import DEFAULT_BASE_URL, RULES, is_priced, url_of
from tasks.records import Endpoint


def announce(reflector: str, judge: str, cost: str) -> str:
    """`reflector` and `judge` are from `provider_at`, `cost` is from `highest_cost`."""
    return escape_control(f"reflector: {reflector}; judge: {judge}; cost: {cost}")


def provider_at(model: str, endpoint: Endpoint, *, rules: bool, external: bool = False) -> str:
    """A model and the address of its calls, or the rules.

    `external`: the calls are made by workers of an external farm, whose environment is not known here.
    """
    if rules:
        return RULES
    if external and not endpoint.base_url:
        return f"{model} at the workers' OPENAI_BASE_URL, or {DEFAULT_BASE_URL} without one"
    return f"{model} at {url_of(endpoint)}"


def highest_cost(endpoint: Endpoint, *, rules: bool) -> str:
    """The most that all calls together may cost, as text."""
    if rules and not any((endpoint.price_prompt, endpoint.price_cached, endpoint.price_completion)):
        return "free"
    if not is_priced(endpoint):
        return "unknown, since the prices are not set"
    if not endpoint.budget_usd:
        return "without limit, since no budget is set"
    return f"at most {format_money(endpoint.budget_usd)}"
