"""Times, money, scores and tables as text.  Widths are in cells of a terminal: an East Asian character takes two."""

from __future__ import annotations

import math
from collections.abc import Sequence

from rich.cells import cell_len, chop_cells

from tasks.common.text import escape_control
from tasks.openai.endpoint import RULES, is_priced, url_of
from tasks.plan import Evaluations
from tasks.records import Endpoint


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
    """`$0.0123 of $5.00`; `unconfirmed` is the most that calls without an outcome, or without usage, may have cost."""
    of = f" of {format_money(budget)}" if budget else ""
    if not unconfirmed:
        return f"{format_money(dollars)}{of}"
    known = f"{format_money(dollars)}{of}, and " if dollars else f"unknown{of}, "
    return f"{known}up to {format_money(unconfirmed)} for calls whose cost is unknown"


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


def announce(reflector: str, judge: str, cost: str) -> str:
    """`reflector` and `judge` are from `provider_at`, `cost` is from `highest_cost`."""
    return escape_control(f"reflector: {reflector}; judge: {judge}; cost: {cost}")


def provider_at(model: str, endpoint: Endpoint, *, rules: bool, external: bool = False) -> str:
    """A model and the address of its calls (`external`: of workers whose environment is not known), or the rules."""
    if rules:
        return RULES
    if external and not endpoint.base_url:
        return f"{model}, or rules, whatever answers where the farm's openai workers call"
    return f"{model} at {url_of(endpoint)}"


def highest_cost(endpoint: Endpoint, *, rules: bool, external: bool = False) -> str:
    """The most that all calls together may cost, as text; `external` as for `provider_at`."""
    if rules and not any((endpoint.price_prompt, endpoint.price_cached, endpoint.price_completion)):
        return "free"
    if not is_priced(endpoint) and external and not endpoint.base_url:
        return "not known before they have answered: free by rules, and of a model the prices are not set"
    if not is_priced(endpoint):
        return "unknown, since the prices are not set"
    if not endpoint.budget_usd:
        return "without limit, since no budget is set"
    return f"at most {format_money(endpoint.budget_usd)}"


def wrap(text: str, width: int) -> list[str]:
    """Lines of at most `width` (2 or more) cells, broken at spaces where there are any; line ends are kept."""
    lines: list[str] = []
    for paragraph in text.split("\n"):
        line = ""
        for word in paragraph.split(" "):
            joined = f"{line} {word}" if line else word
            if cell_len(joined) <= width:
                line = joined
                continue
            *pieces, rest = chop_cells(word, width) or [""]
            lines += [*filter(None, [line]), *pieces]
            line = rest
        lines.append(line)
    return lines


def truncate(text: str, width: int) -> str:
    """`text` in at most `width` cells, with an ellipsis where it was cut."""
    if cell_len(text) <= width:
        return text
    return (chop_cells(text, width - 1)[0] if width > 1 else "") + "…"


def format_table(rows: Sequence[Sequence[str]]) -> list[str]:
    """One line for each row; a column is as wide as its widest cell.  Control characters are escaped."""
    rows = [[escape_control(cell) for cell in row] for row in rows]
    widths = [max(map(cell_len, column)) for column in zip(*rows, strict=True)]
    padded = ([cell + " " * (width - cell_len(cell)) for cell, width in zip(row, widths, strict=True)] for row in rows)
    return ["  ".join(row).rstrip() for row in padded]
