"""Numbers as finance writes them: "$1,577.5 million", "(473)", "−0.02", "65.4%", "150 bps", "2.4x"."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Literal

Unit = Literal["plain", "money", "percent", "basis_points", "multiple"]

SCALES = {
    **dict.fromkeys(("k", "thousand", "thousands"), 1e3),
    **dict.fromkeys(("m", "mm", "mn", "million", "millions"), 1e6),
    **dict.fromkeys(("b", "bn", "billion", "billions"), 1e9),
    **dict.fromkeys(("tn", "trn", "trillion", "trillions"), 1e12),
}

_CURRENCY = r"(?:\\?(?:US|C|A)?\$|€|£|\b(?:USD|EUR|GBP)(?=[\s\d(.−–-]))"
_MINUS = r"[-−–]"
_DIGITS = r"\d{1,3}(?:(?:,|\{,\})\d{3})+(?![\d,]*\d)(?:\.\d+)?|\d+(?:\.\d+)?|\.\d+"  # TeX has {,}
_SCALE = "|".join(sorted(SCALES, key=len, reverse=True))
_PERCENT = r"\\?%|per\s?cent\b|percentage[ -]points?\b|pp\b"
_NUMBER = re.compile(
    # A sign stands free: after a letter, a digit, a bracket or a percent sign the stroke joins things ("5%-7%").
    rf"(?P<open>\()?(?P<minus>(?<![\w)%]){_MINUS}\s?)?(?P<currency>{_CURRENCY})?\s?"
    rf"(?P<inner_open>(?<=[$€£DRP\s])\()?(?P<inner_minus>(?<=[$€£DRP\s]){_MINUS})?"
    rf"(?<![\w.])(?<!\d,)(?P<digits>{_DIGITS})(?P<early_close>\))?"
    rf"(?:(?:\s|-(?=\w{{4}}))?(?P<scale>{_SCALE})\b(?!['’&]))?"
    rf"(?:\s?(?:(?P<percent>{_PERCENT})|(?P<points>bps?\b|basis[ -]points?\b)|(?P<multiple>x\b|times\b)"
    rf"|(?P<after>€|£|(?:USD|EUR|GBP|(?:US )?dollars?|euros?)\b)))?"
    rf"(?P<close>\))?(?!\w|-[A-Za-z])",
    re.IGNORECASE,
)


@dataclass(frozen=True)
class Number:
    """One number of a text.

    `value` is signed and as written ("$1.5 billion" has 1.5); `scale` is what its scale word multiplies it by, None
    where none is written; `decimals` counts the digits after the point; `in_parentheses` marks a bracketed number:
    accountants write a loss so, prose an aside, so that its sign, read as minus, is a guess.  `span` is where it
    stands in the text, with its sign, its currency and its unit.
    """

    value: float
    unit: Unit
    scale: float | None
    decimals: int
    in_parentheses: bool
    span: tuple[int, int]

    @property
    def amount(self) -> float:
        """The value with its scale word applied: 1.5e9 for "$1.5 billion", 65.4 for "65.4%"."""
        return self.value * (self.scale or 1.0)


def read_numbers(text: str) -> list[Number]:
    """Every number of the text, in its order. Digits inside a word ("FY2018", "Q2", "10-K", "2nd") are none."""
    return [_read(found) for found in _NUMBER.finditer(text)]


def _read(found: re.Match[str]) -> Number:
    digits = found["digits"].replace("{", "").replace("}", "")
    opened = found["open"] or found["inner_open"]
    closed = found["close"] or found["early_close"]
    in_parentheses = bool(opened and closed)
    is_negative = in_parentheses or bool(found["minus"] or found["inner_minus"])
    value = float(digits.replace(",", ""))
    start, end = found.span()
    start += len(found[0]) - len(found[0].lstrip())
    if found["open"] and not closed:  # the bracket opens a longer remark, and is no part of the number
        start += 1
    if found["close"] and not opened:
        end -= 1
    return Number(
        value=-value if is_negative and value else value,
        unit=_unit(found),
        scale=SCALES[found["scale"].lower()] if found["scale"] else None,
        decimals=len(digits.partition(".")[2]),
        in_parentheses=in_parentheses,
        span=(start, end),
    )


def _unit(found: re.Match[str]) -> Unit:
    if found["percent"]:
        return "percent"
    if found["points"]:
        return "basis_points"
    if found["multiple"]:
        return "multiple"
    return "money" if found["currency"] or found["after"] else "plain"
