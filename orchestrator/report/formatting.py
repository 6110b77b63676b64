"""Times, money and scores as text."""

from __future__ import annotations

import math
from collections.abc import Iterable

from tasks.plan import Evaluations

INITIAL = "initial individual"


def baseline_name(initial_deltas: Iterable[float]) -> str:
    """What the initial individual is called: "zero vector" only where all its deltas are 0."""
    return INITIAL if any(initial_deltas) else "zero vector"


def format_count(number: int, units: str) -> str:
    """`1 generation`, `3 generations`, `1 batch`; `units` is the plural."""
    singular = units.removesuffix("es" if units.endswith("ches") else "s")
    return f"{number:,} {singular if number == 1 else units}"


def format_duration(seconds: float | None) -> str:
    """`8 s`, `3 min 12 s` or `2 h 05 min`; `?` for None and for an infinite time."""
    if seconds is None or not math.isfinite(seconds):
        return "?"
    whole = max(0, round(seconds))
    if whole < 60:
        return f"{whole} s"
    if whole < 3600:
        return f"{whole // 60} min {whole % 60:02d} s"
    return f"{whole // 3600} h {whole % 3600 // 60:02d} min"


def format_money(dollars: float | None) -> str:
    """`$0.0123` below one dollar, `$12.35` from one dollar, `free` for 0, `unknown` for None."""
    if dollars is None:
        return "unknown"
    if dollars == 0:
        return "free"
    return f"${dollars:.4f}" if dollars < 1 else f"${dollars:,.2f}"


def format_cost(dollars: float | None, budget: float, unconfirmed: float = 0.0) -> str:
    """`$0.0123 of $5.00`; `unconfirmed` is the most that calls with an unknown outcome may have cost."""
    of = f" of {format_money(budget)}" if budget else ""
    return f"{format_money(dollars)}{of}" + (
        f", and up to {format_money(unconfirmed)} for calls whose outcome is unknown" if unconfirmed else ""
    )


def format_score(value: float | None) -> str:
    """A fitness with four decimals, `–` when there is none."""
    return "–" if value is None or not math.isfinite(value) else f"{value:.4f}"


def format_evaluations(evaluations: Evaluations) -> str:
    """`20 computed, 4 from the cache, 6 carried over`."""
    e = evaluations
    return f"{e.computed:,} computed, {e.cached:,} from the cache, {e.carried:,} carried over"


def format_percent(share: float) -> str:
    """`55.2 %` for 0.552."""
    return f"{100 * share:.1f} %"


def format_points(share: float) -> str:
    """`3 points` for 0.03, `1 point` for 0.01, `2.5 points` for 0.025."""
    value = f"{100 * share:.1f}".removesuffix(".0")
    return f"{value} point" if value == "1" else f"{value} points"


def format_signed(share: float) -> str:
    """`-0.5` for -0.005: a difference of shares in points."""
    return f"{100 * share:+.1f}"
