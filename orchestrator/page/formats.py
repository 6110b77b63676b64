"""Numbers and texts as the page writes them: the filters of its templates."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

from orchestrator.report.formatting import format_duration, format_money, format_points

MINUS = "−"
_UNSEEN = re.compile(r"[\s\x00-\x1f\x7f-\x9f\xad\u200b-\u200f\u2028-\u202e\u2060-\u2069\ufeff]")
_SIGNS = {" ": "␣", "\n": "↵", "\t": "⇥", "\r": "␍"}


def number(value: float, digits: int = 0) -> str:
    return f"{value:z,.{digits}f}".replace("-", MINUS)


def points(share: float) -> str:
    """A difference of shares in points, with its sign."""
    return f"{100 * share:+z.1f}".replace("-", MINUS)


def plural(count: float, one: str) -> str:
    return f"{number(count)} {one if count == 1 else one + 's'}"


def arrows(sentence: str) -> str:
    """A sentence of report.txt, which is written for terminals."""
    return re.sub(r"(^|[\s(])-(?=\d)", rf"\1{MINUS}", sentence.replace(" -> ", "\u00a0→\u00a0"))


def cell(value: Any) -> str:
    """A figure of any kind, in a table."""
    if isinstance(value, tuple):
        return " to ".join(map(cell, value))
    if isinstance(value, dict):
        return ", ".join(f"{count} {name}" for name, count in value.items())
    if isinstance(value, float):
        return f"{value:,.4g}".replace("-", MINUS)
    return "–" if value is None else number(value) if isinstance(value, int) else str(value)


def align(value: Any) -> str:
    """The class of a cell: figures stand at the right."""
    return "num" if not isinstance(value, str) or re.fullmatch(r"[-+−]?[\d.,]+ ?%?", value) else ""


def visible(token: str) -> str:
    """A token with signs for the spaces, line ends and other characters in it that are not seen."""
    return _UNSEEN.sub(lambda found: _SIGNS.get(found[0], f"U+{ord(found[0]):04X}"), token)


FILTERS: dict[str, Callable[..., str]] = {
    one.__name__: one for one in (number, points, plural, arrows, cell, align, visible)
}
FILTERS |= {"money": format_money, "duration": format_duration, "share_in_points": format_points}
