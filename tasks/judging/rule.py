"""Stage 1: a gold that is a pure number, decided without a model.

It says "correct" or nothing.  The number that the answer settles on is brought to the gold's unit and accepted where
its relative error is within the tolerance.  One thing widens that: a question that asks for rounding ("to two decimal
places") makes the gold a rounded number, which every number that rounds to it equals; the digits that the gold happens
to be written with do not.  What the rule is not sure of, it leaves to stage 2.
"""

from __future__ import annotations

import math
import re
from dataclasses import dataclass
from typing import Literal

from tasks.judging.final_answer import final_numbers, is_incidental
from tasks.judging.numbers import SCALES, Number, read_numbers
from tasks.judging.units import has_other_unit, in_unit_of, named_scale

# Who says that the figures are missing has not answered, whatever figures follow ("for example, 10 / 40 = 25%").
_DECLINES = re.compile(
    r"\b(?:cannot|can't|can not|unable to|not possible to|impossible to)\s+(?:\w+\s+){0,2}"
    r"(?:provide|determine|calculate|compute|answer|find|give|access|be (?:determined|calculated|computed|answered))"
    r"|\bdo(?:es)?(?: not|n't) (?:\w+ )?(?:have access|have real|provide|contain|include|specify|mention|outline)"
    r"|\bno (?:explicit |specific )?(?:mention|information|data|evidence)\b|\bnot (?:provided|available|mentioned)\b"
    r"|\bwould need\b|\bfor example, if\b|\b(?:please|if you(?: can| could)?) provide\b|\bonce you have\b"
    r"|\bif you have (?:access|the)\b|\byou (?:will|would) need\b",
    re.IGNORECASE,
)
_HYPOTHETICAL = re.compile(
    r"\b(?:if|once|please|would|need|example|assum\w+|suppos\w+|hypothe\w+|illustrat\w+)\b", re.IGNORECASE
)
_RESULT = re.compile(r"[=≈≅]\s*[^\s=≈≅]")
_ASKS_AMOUNT = re.compile(
    r"[$€£¥%]|\b(?:USD|EUR|GBP|dollars?|euros?|per\s?cent\w*|how (?:much|far|long|large|big|heavy)|amount|ratio|margin"
    r"|rate|growth|average|mean|turnover|days|revenues?|sales|costs?|expen\w+|income|profit|earnings|assets|liabilit\w+"
    r"|debt|cash|price|value|dividends?|EBIT\w*|capex|distance|weight|length|area|volume|speed|temperature|time)\b",
    re.IGNORECASE,
)
_ASKS_COUNT = re.compile(
    r"\b(?:how many|number of|count of|(?:which|what) (?:year|date|day|month|page|number|id|version)|when|how old)\b",
    re.IGNORECASE,
)
_PLACES = re.compile(r"\b(zero|no|one|two|three|four|five|[0-5])[\s-]decimal", re.IGNORECASE)
_NEAREST = re.compile(
    r"\bnearest (?:(tenth|hundredth|thousandth|cent|whole|integer|dollar|day|percent\w*|million|billion|thousand)s?)\b",
    re.IGNORECASE,
)
_COUNTS = {"zero": 0, "no": 0, "one": 1, "two": 2, "three": 3, "four": 4, "five": 5}
_NEAREST_PLACES = {"tenth": 1, "hundredth": 2, "cent": 2, "thousandth": 3}


@dataclass(frozen=True)
class Match:
    """The number of the answer that agrees with the gold."""

    number: Number
    reasoning: str


def decide_by_rule(question: str, gold: str, answer: str, tolerance: float) -> Literal[True] | None:
    """True where the answer settles on the gold's number within `tolerance` (relative), None for all else."""
    return True if find_match(question, gold, answer, tolerance) else None


def find_match(question: str, gold: str, answer: str, tolerance: float) -> Match | None:
    """As `decide_by_rule`, with the number that agreed and a sentence about it."""
    target = pure_number(gold)
    if target is None or declines(answer):
        return None
    places = requested_places(question, target)
    if not is_quantity(question, target):
        tolerance = 0.0
    for number in final_numbers(question, answer):
        if has_other_unit(number, question, gold, answer):
            return None
        values = in_unit_of(target, number, question, answer)
        written = answer[slice(*number.span)]
        if any(is_close(value, target.value, tolerance) for value in values):
            within = f"within {100 * tolerance:g}% of" if target.value and tolerance else "equal to"
            return Match(number, f"The answer settles on {written}, {within} {gold.strip()}.")
        if any(_rounds_to(value, target, places) for value in values):
            return Match(
                number, f"The answer settles on {written}, which rounds to {gold.strip()} as the question asks."
            )
    return None


def has_quantity(question: str, gold: str, answer: str, tolerance: float) -> bool:
    """Whether the gold has one quantity, and the answer settles on one that agrees with it in unit and currency."""
    golds = [number for number in read_numbers(gold) if not is_incidental(gold, number)]
    if len(golds) != 1 or not is_quantity(question, target := golds[0]) or declines(answer):
        return False
    return any(
        is_close(value, target.value, tolerance)
        for number in final_numbers(question, answer)
        if not has_other_unit(number, question, gold, answer)
        for value in in_unit_of(target, number, question, answer)
    )


def is_quantity(question: str, gold: Number) -> bool:
    """Whether a tolerance makes sense: not for a year, an identifier or a count of people or things.

    These are whole numbers without a unit, where the question names no unit and no amount either.
    """
    if gold.unit != "plain" or gold.scale is not None or gold.decimals or gold.exact.denominator > 1:
        return True
    return named_scale(question) is not None or (
        _ASKS_AMOUNT.search(question) is not None and _ASKS_COUNT.search(question) is None
    )


def pure_number(gold: str) -> Number | None:
    """The number that the whole gold is ("$1577.00", "65.4%", "-0.02"), or None where it says anything more."""
    text = gold.strip().rstrip(".")
    numbers = read_numbers(text)
    return numbers[0] if len(numbers) == 1 and numbers[0].span == (0, len(text)) else None


def declines(answer: str) -> bool:
    """Whether the answer says that it lacks the figures; then the numbers that it has claim nothing.

    Unless it goes on to calculate a result from others, and not from an example or an assumption.
    """
    *_, last = [None, *_DECLINES.finditer(answer)]
    if last is None:
        return False
    rest = answer[last.start() :]
    return not _RESULT.search(rest) or _HYPOTHETICAL.search(rest) is not None


def in_one_unit(number: Number, gold: Number, question: str, answer: str) -> tuple[float, float] | None:
    """(number, gold) in one unit, signs as the words around the number have them: the reading that agrees best.

    None where their units cannot be brought together, as a percentage and an amount of money.
    """
    values = in_unit_of(gold, number, question, answer)
    return min(((value, gold.value) for value in values), key=lambda pair: abs(pair[0] - pair[1]), default=None)


def is_close(value: float, target: float, tolerance: float) -> bool:
    """|value - target| <= tolerance * |target|; a target of 0 is met by 0 alone, and nothing by what is not finite."""
    if not (math.isfinite(value) and math.isfinite(target)):
        return False
    return abs(value - target) <= tolerance * abs(target) * (1 + 1e-12)


def requested_places(question: str, gold: Number) -> int | None:
    """To how many decimals of the gold's unit the question asks to round; None where it does not ask."""
    if match := _PLACES.search(question):
        word = match[1].lower()
        return _COUNTS[word] if word in _COUNTS else int(word)
    if (match := _NEAREST.search(question)) is None:
        return None
    word = match[1].lower()
    if word in SCALES and word not in _NEAREST_PLACES:
        # "to the nearest million" says how a gold in millions was rounded, and no other.
        return 0 if SCALES[word] == (gold.scale or named_scale(question)) else None
    return _NEAREST_PLACES.get(word, 0)


def _rounds_to(value: float, gold: Number, places: int | None) -> bool:
    """Whether the value, rounded as the question asks, is the gold: 0.0142 is 0.01. A gold of 0 is met by 0 alone."""
    if places is None or gold.decimals > places or gold.value == 0 or not math.isfinite(value):
        return False
    return abs(value - gold.value) <= 0.5 * 10.0**-places * (1 + 1e-9)
