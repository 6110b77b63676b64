"""Rows as columns of plain text.

Times, amounts and money as a person writes them.
"""

from __future__ import annotations

import math
from collections.abc import Sequence


def columns(rows: Sequence[Sequence[str]]) -> list[str]:
    """A line a row, each cell as wide as the widest of its column; all rows have equally many cells."""
    widths = [max(len(row[i]) for row in rows) for i in range(len(rows[0]))]
    return ["  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in rows]


def duration(seconds: float | None) -> str:
    """`8 s`, `3 min 12 s`, `2 h 05 min`; `?` when it is not known."""
    if seconds is None or not math.isfinite(seconds):
        return "?"
    whole = max(0, round(seconds))
    if whole < 60:
        return f"{whole} s"
    if whole < 3600:
        return f"{whole // 60} min {whole % 60:02d} s"
    return f"{whole // 3600} h {whole % 3600 // 60:02d} min"


def money(dollars: float) -> str:
    """`$0.0123` below a dollar, `$12.35` from there on, `free` for nothing."""
    if dollars == 0:
        return "free"
    return f"${dollars:.4f}" if dollars < 1 else f"${dollars:,.2f}"


def spent(dollars: float, budget: float, unconfirmed: float = 0.0) -> str:
    """`$0.0123 of $5.00`; `unconfirmed` is the most that calls may have cost whose answers nobody heard."""
    of = f" of {money(budget)}" if budget else ""
    return f"{money(dollars)}{of}" + (
        f", and up to {money(unconfirmed)} for answers that were not heard" if unconfirmed else ""
    )


def score(value: float | None) -> str:
    """A fitness with four decimals, `–` when there is none."""
    return "–" if value is None or not math.isfinite(value) else f"{value:.4f}"
