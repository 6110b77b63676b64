r"""One reader of numbers for all judges: "$1,577.5 million", "(473)", "65.4%", "1/2", "1.5 × 10⁹", "₹1,00,000".

A number is read whole or not at all.  Digits that belong to something else hold no number: a word ("FY2018", "2nd"), a
version ("1.2.3"), a root or a power ("√2", "2^5"), a time ("3:45"), an exponent or an index ("cm^2", "x_1").  A ratio
to one is its first number ("1.5:1").

A comma before groups of three digits separates thousands, also as in India (12,34,567); a comma before another number
of digits is a decimal comma.  Thousands may also be separated by a space, an apostrophe, or, where there are two groups
or a decimal comma behind them, by a point.
"""

from __future__ import annotations

import json
import math
import re
import unicodedata
from dataclasses import dataclass
from fractions import Fraction
from typing import Literal, NamedTuple

Unit = Literal["plain", "money", "percent", "basis_points", "multiple"]

SCALES = {
    **dict.fromkeys(("k", "thousand", "thousands", "tsd", "тыс"), 1e3),
    **dict.fromkeys(("m", "mm", "mn", "million", "millions", "mio", "millionen", "млн"), 1e6),
    **dict.fromkeys(("b", "bn", "billion", "billions", "mrd", "milliarde", "milliarden", "млрд"), 1e9),
    **dict.fromkeys(("tn", "trn", "trillion", "trillions"), 1e12),
    **{"dozen": 12.0, "dozens": 12.0, "hundred": 1e2, "hundreds": 1e2},
    **{"tenth": 0.1, "tenths": 0.1, "hundredths": 0.01, "thousandths": 0.001},
    **dict.fromkeys(("lakh", "lakhs", "lac"), 1e5),
    **dict.fromkeys(("crore", "crores", "cr"), 1e7),
    **{"万": 1e4, "萬": 1e4, "만": 1e4, "億": 1e8, "亿": 1e8, "억": 1e8, "兆": 1e12, "조": 1e12},
}
_EAST_ASIAN = "".join(word for word in SCALES if len(word) == 1 and not word.isascii())
_LONG_SCALES = [word for word in SCALES if len(word) > 3 or word in ("mrd", "mio", "тыс", "млн", "lac")]
MOST_DIGITS = 1000  # of a number; longer ones are none
# Currencies by code (ISO 4217), sign and word.  A bare dollar sign is taken for US dollars.
_CODE = (
    "AED|ARS|AUD|BDT|BGN|BHD|BRL|BTC|CAD|CHF|CLP|CNY|COP|CZK|DKK|EGP|EUR|GBP|HKD|HUF|IDR|ILS|INR|ISK|JPY|KRW|KWD|LKR"
    "|MAD|MXN|MYR|NGN|NOK|NZD|OMR|PEN|PHP|PKR|PLN|QAR|RMB|RON|RSD|RUB|SAR|SEK|SGD|THB|TRY|TWD|UAH|USD|UYU|VND|ZAR"
)
_CURRENCIES = {
    **{code: code for code in _CODE.split("|")},
    **{"$": "USD", "US$": "USD", "C$": "CAD", "CA$": "CAD", "A$": "AUD", "AU$": "AUD", "HK$": "HKD", "RMB": "CNY"},
    **{"R$": "BRL", "S$": "SGD", "NZ$": "NZD", "NT$": "TWD", "MX$": "MXN"},
    **{"€": "EUR", "£": "GBP", "¥": "JPY", "₹": "INR", "₩": "KRW", "₽": "RUB", "₺": "TRY", "₪": "ILS", "฿": "THB"},
    **{"₫": "VND", "₴": "UAH", "₦": "NGN", "₱": "PHP", "元": "CNY", "円": "JPY", "원": "KRW"},
    **{"DOLLAR": "USD", "US DOLLAR": "USD", "U.S. DOLLAR": "USD", "CANADIAN DOLLAR": "CAD", "AUSTRALIAN DOLLAR": "AUD"},
    **{"EURO": "EUR", "YEN": "JPY", "YUAN": "CNY", "RUPEE": "INR", "RUBLE": "RUB", "POUND": "GBP", "FRANC": "CHF"},
    **{"WON": "KRW", "SWISS FRANC": "CHF", "REAL": "BRL", "REAI": "BRL", "PESO": "MXN"},
}
_CENTS = 0.01
_SIGN = r"\\?(?:\b[A-Z]{1,3})?\$|[€£¥₹₩₽₺₪฿₫₴₦₱]"
_CURRENCY_BEFORE = rf"(?:{_SIGN}|\b(?:{_CODE})(?=[\s\d(.−–-]))"
_CURRENCY_AFTER = (
    rf"[€£¥₹₩₽₺₪฿₫₴₦₱元円원]|\\?\$(?![\d(\\])|(?:{_CODE}|(?:(?:US|U\.S\.|Canadian|Australian)\s)?dollars?|Swiss francs?"
    r"|euros?|yen|yuan|rupees?|rubles?|pounds? sterling|francs?|won|reais|real|pesos?|kron(?:er|or|a|e)|koruna|rand"
    r"|baht|dirhams?|riyals?|shekels?|lira|rupiah|ringgit|dong|zlotys?|forints?|bitcoins?)\b"
)
_MINUS = r"[-‐‑−–]"
_COMMA = r"(?:,|\{,\}|,\\!)"  # TeX has {,}
_SPACE = r"(?: |\\,|\\ |')"  # spaces of all widths and apostrophes are made these by `_plain`
_GROUPED = rf"\d{{1,3}}(?:{_COMMA}\d{{3}})++|\d{{1,2}}(?:,\d\d)+,\d{{3}}|\d{{1,3}}(?:{_SPACE}\d{{3}})++(?!\d|,\d)"
_CONTINENTAL = (
    rf"\d{{1,3}}(?:(?:\.|{_SPACE})\d{{3}})+,\d+|\d{{1,3}}(?:\.\d{{3}}){{2,}}|0,\d+"
    rf"|\d+{_COMMA}(?:\d{{1,2}}|\d{{4,}})(?!\d)"
)
_DECIMAL = rf"(?:{_GROUPED})(?:\.\d+)?|{_CONTINENTAL}|\d+(?:\.\d+)?|\.\d+"
_TEX = (
    r"\\[dtc]?frac\s*(?:\{\s*(?P<tex_top>-?\d+)\s*\}|(?P<tex_top1>\d))"
    r"\s*(?:\{\s*(?P<tex_low>\d+)\s*\}|(?P<tex_low1>\d))"
)
_WHOLE_OF = r"(?:(?P<whole>\d+)(?:\s|-)?)?"
_DIGITS = (
    rf"{_WHOLE_OF}(?:{_TEX}|(?P<vulgar>[¼-¾⅐-⅞]))"
    r"|(?:(?P<whole_of>\d{1,3})[ -])?(?P<top>\d{1,3}(?:,\d{3})+|\d+)/(?P<low>\d{1,3}(?:,\d{3})+|\d+)(?!/)"
    rf"|{_DECIMAL}"
)
_POWER = (
    r"\s?(?:[x×*·]|\\times|\\cdot)\s?10\s?(?:\^\s?\{?(?P<caret>[-−+]?\d{1,3})\}?|\*\*(?P<stars>[-−+]?\d{1,3})"
    r"|(?P<raised>[⁻⁺]?[⁰¹²³⁴-⁹]{1,3}))|[eE](?P<e>[-+]?\d{1,3})|(?<=(?<![\d.,])10)\^\{?(?P<ten>[-−]?\d{1,3})\}?"
)
_PERCENT = r"\\?%|per\s?cent\b|pct\b|percentage[ -]points?\b|pp\b"
_UNIT = (  # a unit that is written against its number, with its power
    r"(?:[kcmµn]?m|[kmµ]?g|lbs?|oz|ft|mi|yd|[mc]?l|L|hrs?|h|min|s|sec|ms|km/h|kmh|mph|[kMGT]?W|kWh|[kMGT]?Hz|[KMGT]?B|°[CF]?|°)"
    r"(?:[²³]|\^\{?[23]\}?)?(?![A-Za-z\d])|\^\s?\{?\s?\\circ\b\s?\}?"
)


def _pattern(scales: list[str]) -> re.Pattern[str]:
    scale = "|".join(sorted((word for word in scales if word not in _EAST_ASIAN), key=len, reverse=True))
    return re.compile(
        # A sign stands free: after a letter, a digit, a bracket or a percent sign the stroke joins things ("5%-7%").
        rf"(?P<open>\()?(?P<minus>(?<![\w)%]){_MINUS}\s?)?(?P<currency>{_CURRENCY_BEFORE})?\s?"
        rf"(?P<inner_open>(?<=[$€£¥₹A-Z\s])\()?(?P<inner_minus>(?<=[$€£¥₹A-Z\s]){_MINUS})?"
        r"(?<![A-Za-zÀ-ɏ\d_.^√])(?<!\d[,:/'])(?<!\d\{,\})(?<!±)(?<!\d\*\*)(?<!\^\{)(?<!\^[-−])(?<!\^\{[-−])(?<!_\{)"
        rf"(?P<digits>{_DIGITS})(?:{_POWER})?(?P<early_close>\))?"
        rf"(?:(?:(?:\s|-(?=\w{{4}}))?(?P<scale>{scale})\b(?!['’&])|\s?(?P<scale_east>[{_EAST_ASIAN}])))?"
        rf"(?:\s?(?:(?P<percent>{_PERCENT})|(?P<points>bps?\b|basis[ -]points?\b)|(?P<cents>cents?\b|¢|pence\b)"
        rf"|(?P<multiple>x\b(?!\s?10\s?\^)|times\b)|(?P<after>{_CURRENCY_AFTER}))|(?P<glued>{_UNIT}))?"
        rf"(?P<close>\))?"
        r"(?![A-Za-zÀ-ɏ\d_√π^²³⁴-⁹'‰]|-[A-Za-z](?![A-Za-z])|[.,]\d|:(?!1(?![\d:]|[.,]\d))\d|/\d|\s?\^|\s?[*·]?\s?(?:\\cdot\s?)?(?:\\(?:pi|sqrt)\b|pi\b|π|√)|\*\*\d|\s?±|\s?E\d|\s?[x×*]\s?10\s?\^"
        rf"|[\s-](?:{scale})\b(?!['’&]))",
        re.IGNORECASE,
    )


_NUMBER = _pattern(list(SCALES))
_NUMBER_LONG = _pattern(_LONG_SCALES)
# Roots, and fractions that are no plain numbers: what stands in them is part of a formula.
_FORMULA = re.compile(
    r"\bsqrt\s?\([^()]*\)|\\sqrt\s*(?:\[[^\]]{0,9}\])?\s*(?:\{[^{}]*\}|\d)|√\s*\(?\d+"
    r"|\\[dtc]?frac\s*\{(?!\s*-?\d+\s*\}\s*\{\s*\d+\s*\})[^{}]*\}\s*\{[^{}]*\}"
)
_NESTED = 2  # a root in a fraction
# A command of TeX in front of a number: "\\approx11".
_COMMAND = re.compile(r"\\(?![dtc]?frac|sqrt|(?:times|cdot)\s?10)[A-Za-z]+(?=\d)")
_ALIKE = {
    **dict.fromkeys("\u00a0\u2007\u2008\u2009\u200a\u202f\u205f\u3000", " "),
    **dict.fromkeys("’ʼ＇", "'"),
    **{"，": ",", "．": ".", "٫": ".", "٬": ",", "％": "%", "＄": "$", "￥": "¥", "⁄": "/", "∕": "/", "／": "/"},
    **{"﹣": "-", "－": "-", "（": "(", "）": ")", "＋": "+"},
}


@dataclass(frozen=True)
class Number:
    """One number of a text, whose scale and currency are None where none is written."""

    exact: Fraction  # signed and as written: 3/2 of "$1.5 billion"
    unit: Unit
    scale: float | None
    decimals: int  # digits after the point
    in_parentheses: bool  # accountants write a loss so, prose an aside: its sign, read as minus, is a guess
    span: tuple[int, int]  # with sign, currency and unit
    currency: str | None  # a code

    @property
    def value(self) -> float:
        try:
            return float(self.exact)
        except OverflowError:
            return math.inf if self.exact > 0 else -math.inf

    @property
    def total(self) -> Fraction:
        """With its scale word applied, exactly: 1.5e9 for "$1.5 billion"."""
        return self.exact * (Fraction(self.scale).limit_denominator(1000) if self.scale else 1)


def read_numbers(text: str, *, short_scales: bool = True) -> list[Number]:
    """Every number of the text; with `short_scales` "5m", "5 k" and "5B" are amounts, and no length, letter or size."""
    plain = _COMMAND.sub(lambda found: " " * len(found[0]), _plain(text))
    for _ in range(_NESTED):
        plain = _FORMULA.sub(lambda found: "√" * len(found[0]), plain)
    pattern = _NUMBER if short_scales else _NUMBER_LONG
    return [number for match in pattern.finditer(plain) if (number := _read(match)) is not None]


def _plain(text: str) -> str:
    """The text with digits of any script, spaces of any width and full-width signs as ASCII has them, as long as it."""

    def ascii_of(letter: str) -> str:
        digit = None if letter.isascii() else unicodedata.decimal(letter, None)
        return _ALIKE.get(letter, letter) if digit is None else str(digit)

    return text if text.isascii() else "".join(map(ascii_of, text))


def _read(match: re.Match[str]) -> Number | None:
    value, decimals = _magnitude(match)
    if value is None:
        return None
    opened = match["open"] or match["inner_open"]
    closed = match["close"] or match["early_close"]
    in_parentheses = bool(opened and closed)
    is_negative = in_parentheses or bool(match["minus"] or match["inner_minus"])
    start, end = match.span()
    start += len(match[0]) - len(match[0].lstrip())
    if match["open"] and not closed:  # the bracket opens a longer remark, and is no part of the number
        start += 1
    if match["close"] and not opened:
        end -= 1
    word = match["scale"] or match["scale_east"]
    scale = _CENTS if match["cents"] else SCALES[word.lower()] if word else None
    exact, currency = -value if is_negative else value, _currency(match["after"] or match["currency"])
    return Number(exact, _unit(match), scale, decimals, in_parentheses, (start, end), currency)


def _magnitude(match: re.Match[str]) -> tuple[Fraction | None, int]:
    """The number without its sign, and its digits after the point; None for a division by zero or too many digits."""
    if len(match["digits"]) > MOST_DIGITS:
        return None, 0
    whole = Fraction(int(match["whole"] or match["whole_of"] or 0))
    if match["vulgar"]:
        return whole + Fraction(unicodedata.numeric(match["vulgar"])).limit_denominator(100), 0
    if top := match["top"] or match["tex_top"] or match["tex_top1"]:
        low = int((match["low"] or match["tex_low"] or match["tex_low1"]).replace(",", ""))
        return (whole + Fraction(int(top.replace(",", "")), low), 0) if low else (None, 0)
    digits = re.sub(r"[ {}'\\!]|\\,", "", match["digits"].replace(r"\,", " "))
    if re.fullmatch(_CONTINENTAL, match["digits"]):
        digits = digits.replace(".", "").replace(",", ".")
    digits = digits.replace(",", "")
    power = next((match[name] for name in ("caret", "stars", "raised", "e", "ten") if match[name]), "0")
    exponent = int(unicodedata.normalize("NFKC", power).replace("−", "-"))
    base = Fraction(1) if match["ten"] else Fraction(digits)
    return base * Fraction(10) ** exponent, len(digits.partition(".")[2])


def _unit(match: re.Match[str]) -> Unit:
    if match["percent"]:
        return "percent"
    if match["points"]:
        return "basis_points"
    if match["multiple"]:
        return "multiple"
    return "money" if match["currency"] or match["after"] or match["cents"] else "plain"


def _currency(written: str | None) -> str | None:
    if not written:
        return None
    word = " ".join(written.upper().lstrip("\\").split())
    return _CURRENCIES.get(word) or _CURRENCIES.get(word.removesuffix("S")) or word


_THINKING = re.compile(r"<think(?:ing)?>.*?(?:</think(?:ing)?>|\Z)", re.DOTALL | re.IGNORECASE)
_THOUGHT = re.compile(r"\A.*</think(?:ing)?>", re.DOTALL | re.IGNORECASE)
_LINE_MARK = re.compile(r"####[ \t]*(?P<line>[^\n]*)")
_BOX = re.compile(r"\\f?boxed\s*\{")
_STYLE = re.compile(
    r"\\(?:text|mathbf|mathrm|mathsf|mathit|textbf|textrm|textnormal|boldsymbol|bm|mbox|left|right|displaystyle)\b"
)
_LIMIT = re.compile(r"[<>≤≥≠]|\\(?:leq?|geq?|neq?)\b")
_RELATION = re.compile(r"[=≈≅]|\\approx\b|\\equiv\b")


class FinalMark(NamedTuple):
    """What an answer marks as its result: its text without TeX's styles, as long as the original, and where it starts.

    `is_line` is true of the rest of a line, which may have more behind it.
    """

    text: str
    start: int
    is_line: bool


def accepted_answers(gold: str) -> list[str]:
    """The answers of which each is right: those of a JSON list of texts, else the gold itself."""
    if gold.lstrip().startswith("["):
        try:
            listed = json.loads(gold)
        except ValueError:
            return [gold]
        if isinstance(listed, list) and listed and all(isinstance(text, str) and text.strip() for text in listed):
            return listed
    return [gold]


def without_thinking(answer: str) -> str:
    """The answer without the blocks in which a model thinks; one that never ends has no answer behind it."""
    return _THOUGHT.sub("", _THINKING.sub("", answer)) if "think" in answer.lower() else answer


def final_mark(text: str) -> FinalMark | None:
    r"""The text behind the last "####", else that in the last "\boxed{}" (behind its last equals sign), or None."""
    if lines := list(_LINE_MARK.finditer(text)):
        return FinalMark(lines[-1]["line"], lines[-1].start("line"), is_line=True)
    if not (boxes := list(_BOX.finditer(text))):
        return None
    start = boxes[-1].end()
    content = _STYLE.sub(lambda style: " " * len(style[0]), _balanced(text, start))
    if _LIMIT.search(content):  # "x > 3" is no result
        content = " " * len(content)
    behind = max((relation.end() for relation in _RELATION.finditer(content)), default=0)
    return FinalMark(content[behind:], start + behind, is_line=False)


def _balanced(text: str, start: int) -> str:
    """The text from `start` to the brace that closes what was opened before it, or to the end of its line."""
    depth = 1
    for end in range(start, len(text)):
        depth += {"{": 1, "}": -1}.get(text[end], 0)
        if depth == 0:
            return text[start:end]
    return text[start:].split("\n", 1)[0]
