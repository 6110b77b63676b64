"""Numbers as finance writes them: "$1,577.5 million", "(473)", "−0.02", "65.4%", "150 bps", "2.4x".

What cannot be read for certain is not read in part: "1.577,00", "1.2.3" and "1.5 x 10^9" hold no number.
"""

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

# Currencies by sign, code and word. A bare dollar sign is taken for US dollars.
_CODES = ("USD", "EUR", "GBP", "JPY", "CNY", "RMB", "INR", "CHF", "CAD", "AUD", "HKD", "SEK", "NOK", "DKK")
_CURRENCIES = {
    **{code: code for code in _CODES},
    **{"$": "USD", "US$": "USD", "C$": "CAD", "CA$": "CAD", "A$": "AUD", "AU$": "AUD", "HK$": "HKD", "RMB": "CNY"},
    **{"€": "EUR", "£": "GBP", "¥": "JPY", "₹": "INR"},
    **{"DOLLAR": "USD", "US DOLLAR": "USD", "U.S. DOLLAR": "USD", "CANADIAN DOLLAR": "CAD", "AUSTRALIAN DOLLAR": "AUD"},
    **{"EURO": "EUR", "YEN": "JPY", "YUAN": "CNY", "RUPEE": "INR"},
}

_SIGN = r"\\?(?:US|CA?|AU?|HK)?\$|[€£¥₹]"
_CODE = "|".join(_CODES)
_CURRENCY_BEFORE = rf"(?:{_SIGN}|\b(?:{_CODE})(?=[\s\d(.−–-]))"
_CURRENCY_AFTER = rf"[€£]|(?:{_CODE}|(?:(?:US|U\.S\.|Canadian|Australian)\s)?dollars?|euros?|yen|yuan|rupees?)\b"
_MINUS = r"[-‐‑−–]"
_DIGITS = r"\d{1,3}(?:(?:,|\{,\})\d{3})+(?![\d,]*\d)(?:\.\d+)?|\d+(?:\.\d+)?|\.\d+"  # TeX has {,}
_SCALE = "|".join(sorted(SCALES, key=len, reverse=True))
_PERCENT = r"\\?%|per\s?cent\b|percentage[ -]points?\b|pp\b"
_POWER_OF_TEN = r"\s?(?:[x×*]|\\times)\s?10\s?\^"
_NUMBER = re.compile(
    # A sign stands free: after a letter, a digit, a bracket or a percent sign the stroke joins things ("5%-7%").
    rf"(?P<open>\()?(?P<minus>(?<![\w)%]){_MINUS}\s?)?(?P<currency>{_CURRENCY_BEFORE})?\s?"
    rf"(?P<inner_open>(?<=[$€£¥₹A-Z\s])\()?(?P<inner_minus>(?<=[$€£¥₹A-Z\s]){_MINUS})?"
    rf"(?<![\w.^])(?<!\d,)(?<!\^{{)(?P<digits>{_DIGITS})(?P<early_close>\))?"
    rf"(?:(?:\s|-(?=\w{{4}}))?(?P<scale>{_SCALE})\b(?!['’&]))?"
    rf"(?:\s?(?:(?P<percent>{_PERCENT})|(?P<points>bps?\b|basis[ -]points?\b)|(?P<multiple>x\b(?!\s?10\s?\^)|times\b)"
    rf"|(?P<after>{_CURRENCY_AFTER})))?"
    rf"(?P<close>\))?(?!\w|-[A-Za-z]|[.,]\d|\s?\^|{_POWER_OF_TEN})",
    re.IGNORECASE,
)


@dataclass(frozen=True)
class Number:
    """One number of a text.

    `value` is signed and as written ("$1.5 billion" has 1.5); `scale` is what its scale word multiplies it by, None
    where none is written; `decimals` counts the digits after the point; `in_parentheses` marks a bracketed number:
    accountants write a loss so, prose an aside, so that its sign, read as minus, is a guess.  `span` is where it
    stands in the text, with its sign, its currency and its unit.  `currency` is a code ("USD"), None where none is
    written.
    """

    value: float
    unit: Unit
    scale: float | None
    decimals: int
    in_parentheses: bool
    span: tuple[int, int]
    currency: str | None = None

    @property
    def amount(self) -> float:
        """The value with its scale word applied: 1.5e9 for "$1.5 billion", 65.4 for "65.4%"."""
        return self.value * (self.scale or 1.0)


def read_numbers(text: str) -> list[Number]:
    """Every number of the text, in its order. Digits inside a word ("FY2018", "Q2", "10-K", "2nd") are none."""
    return [_read(match) for match in _NUMBER.finditer(text)]


def _read(match: re.Match[str]) -> Number:
    digits = match["digits"].replace("{", "").replace("}", "")
    opened = match["open"] or match["inner_open"]
    closed = match["close"] or match["early_close"]
    in_parentheses = bool(opened and closed)
    is_negative = in_parentheses or bool(match["minus"] or match["inner_minus"])
    value = float(digits.replace(",", ""))
    start, end = match.span()
    start += len(match[0]) - len(match[0].lstrip())
    if match["open"] and not closed:  # the bracket opens a longer remark, and is no part of the number
        start += 1
    if match["close"] and not opened:
        end -= 1
    return Number(
        value=-value if is_negative and value else value,
        unit=_unit(match),
        scale=SCALES[match["scale"].lower()] if match["scale"] else None,
        decimals=len(digits.partition(".")[2]),
        in_parentheses=in_parentheses,
        span=(start, end),
        currency=_currency(match["after"] or match["currency"]),
    )


def _unit(match: re.Match[str]) -> Unit:
    if match["percent"]:
        return "percent"
    if match["points"]:
        return "basis_points"
    if match["multiple"]:
        return "multiple"
    return "money" if match["currency"] or match["after"] else "plain"


def _currency(written: str | None) -> str | None:
    if not written:
        return None
    word = " ".join(written.upper().lstrip("\\").split())
    return _CURRENCIES[word if word in _CURRENCIES else word.removesuffix("S")]
