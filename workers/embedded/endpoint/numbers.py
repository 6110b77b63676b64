"""The numbers in a text, with their scale words: "$1,577.5 million", "(473)", "65.4%", "-3"."""

from __future__ import annotations

import re
from dataclasses import dataclass

_SCALES = {"thousand": 1e3, "k": 1e3, "million": 1e6, "mn": 1e6, "m": 1e6, "billion": 1e9, "bn": 1e9, "b": 1e9}
_NUMBER = re.compile(
    r"(?P<open>\()?\s?(?P<minus>(?<![\w.])[-−–])?\s?(?:(?P<currency>[$€£])\s?(?P<inner>[-−])?)?"
    r"(?P<digits>(?<![\w.])\d{1,3}(?:,\d{3})+(?:\.\d+)?|(?<![\w.,])\d*\.?\d+)"
    r"\s?(?P<scale>(?:thousand|million|billion|mn|bn|[kmb])\b)?\s?(?P<percent>%|percent\b)?(?P<close>\))?",
    re.IGNORECASE,
)


@dataclass(frozen=True)
class Number:
    """`value` as written, `scale` what a scale word multiplies it by, 1 for none."""

    value: float
    scale: float
    is_percent: bool
    has_unit: bool  # a currency, a scale word or a percent sign

    @property
    def is_year(self) -> bool:
        """A bare 1990 to 2049 names a year more often than an amount."""
        return not self.has_unit and 1990 <= self.value < 2050 and self.value == int(self.value)


def numbers(text: str) -> list[Number]:
    """Every number of `text`, in order. An amount in parentheses is negative, as accountants write it."""
    return [_read(found) for found in _NUMBER.finditer(text)]


def relative_error(pred: Number, gold: Number) -> float:
    """|pred - gold| / |gold|, in the reading of the two scales that agrees best; infinite where gold is 0 alone.

    "1,577" and "$1.577 billion" may be the same amount, as tables are in thousands or millions: where only one of
    the two says its scale, any table's scale will do.  A percent agrees with its fraction.
    """
    readings = [pred.value * pred.scale]
    target = gold.value * gold.scale
    if (pred.scale == 1) != (gold.scale == 1):
        scale = pred.scale * gold.scale
        readings += [pred.value * pred.scale / by for by in (1e3, 1e6, 1e9) if by <= scale]
        readings += [pred.value * pred.scale * by for by in (1e3, 1e6, 1e9) if by <= scale]
    if pred.is_percent != gold.is_percent and not (pred.scale != 1 or gold.scale != 1):
        readings += [pred.value * 100 if gold.is_percent else pred.value / 100]
    return min(_error(reading, target) for reading in readings)


def _error(reading: float, target: float) -> float:
    if target == 0:
        return 0.0 if reading == 0 else float("inf")
    return abs(reading - target) / abs(target)


def _read(found: re.Match[str]) -> Number:
    value = float(found["digits"].replace(",", ""))
    is_negative = bool(found["minus"] or found["inner"] or (found["open"] and found["close"]))
    scale = _SCALES[found["scale"].lower()] if found["scale"] else 1.0
    has_unit = bool(found["currency"] or found["scale"] or found["percent"])
    return Number(-value if is_negative else value, scale, bool(found["percent"]), has_unit)
