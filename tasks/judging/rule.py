"""Stage 1: a gold that is a pure number, decided without a model (phase0_collect.md section 6).

It says "correct" or nothing.  Both sides are brought to one unit: the scale that they write or that the question asks
for, percent and fraction, minus sign and "loss".  What it is not sure of, it leaves to stage 2.
"""

from __future__ import annotations

import math
import re
from dataclasses import dataclass
from typing import Literal

from tasks.judging.final_answer import final_numbers
from tasks.judging.numbers import SCALES, Number, read_numbers

VERSION = 1  # counts the rules under which verdicts were cached

_IN_SCALE = re.compile(r"\bin\s+(?:\w+\s+|\$\s?)?(thousands?|millions?|billions?|trillions?)\b", re.IGNORECASE)
_ASKS_PERCENT = re.compile(r"%|\bper\s?cent|\bmargin\b|\brate\b", re.IGNORECASE)
# Who says that the figures are not there has not answered, whatever figures follow ("for example, 10 / 40 = 25%").
_DECLINES = re.compile(
    r"\b(?:cannot|can't|can not|unable to|not possible to|impossible to)\s+(?:\w+\s+){0,2}"
    r"(?:provide|determine|calculate|compute|answer|find|give|access|be (?:determined|calculated|computed|answered))"
    r"|\bdo(?:es)?(?: not|n't) (?:\w+ )?(?:have access|have real|provide|contain|include|specify|mention|outline)"
    r"|\bno (?:explicit |specific )?(?:mention|information|data|evidence)\b|\bnot (?:provided|available|mentioned)\b"
    r"|\bwould need\b|\bfor example, if\b",
    re.IGNORECASE,
)
_LOSS = re.compile(
    r"\b(?:loss(?:es)?|negative|minus|deficit|outflow|declin\w+|decreas\w+|fell|dropp?\w*|down|used)\b", re.I
)
# The name of a figure, not a statement about its sign: "profit or loss", "income (loss)".
_SIGNLESS = re.compile(r"\b(?:\w+ )?(?:or|and|/) (?:\w+ )?loss\b|\(loss(?:es)?\)|\bloss or\b", re.IGNORECASE)


@dataclass(frozen=True)
class Match:
    """The number of the answer that agrees with the gold."""

    number: Number
    reasoning: str


def decide(question: str, gold: str, answer: str, tolerance: float) -> Literal[True] | None:
    """True where the answer settles on the gold's number within `tolerance` (relative), None for all else."""
    return True if find_match(question, gold, answer, tolerance) else None


def find_match(question: str, gold: str, answer: str, tolerance: float) -> Match | None:
    """As `decide`, with the number that agreed and a sentence about it."""
    target = pure_number(gold)
    if target is None or declines(answer):
        return None
    for number in final_numbers(question, answer):
        if _agrees(number, target, question, answer, tolerance):
            start, end = number.span
            within = f"within {100 * tolerance:g}% of" if target.value else "equal to"
            return Match(number, f"The answer settles on {answer[start:end]}, {within} {gold.strip()}.")
    return None


def pure_number(gold: str) -> Number | None:
    """The number that the whole gold is ("$1577.00", "65.4%", "-0.02"), or None where it says anything more."""
    text = gold.strip().rstrip(".")
    numbers = read_numbers(text)
    return numbers[0] if len(numbers) == 1 and numbers[0].span == (0, len(text)) else None


def declines(answer: str) -> bool:
    """Whether the answer says that it lacks the figures; then the numbers that it has claim nothing."""
    return _DECLINES.search(answer) is not None


def in_one_unit(number: Number, gold: Number, question: str, answer: str) -> tuple[float, float] | None:
    """(number, gold) in one unit, signs as the words around the number have them: the reading that agrees best.

    None where their units cannot be brought together, as a percentage and an amount of money.
    """
    readings = [(value, wanted) for value, wanted, _ in _signed_readings(number, gold, question, answer)]
    return min(readings, key=lambda pair: abs(pair[0] - pair[1]) / (abs(pair[1]) or 1.0), default=None)


def is_close(value: float, target: float, tolerance: float) -> bool:
    """|value - target| <= tolerance * |target|; a target of 0 is met by 0 alone, and nothing by what is not finite."""
    if not (math.isfinite(value) and math.isfinite(target)):
        return False
    return abs(value - target) <= tolerance * abs(target) * (1 + 1e-12)


def _agrees(number: Number, gold: Number, question: str, answer: str, tolerance: float) -> bool:
    return any(
        is_close(value, wanted, tolerance) or _rounds_to(value, wanted, decimals)
        for value, wanted, decimals in _signed_readings(number, gold, question, answer)
    )


def _signed_readings(number: Number, gold: Number, question: str, answer: str) -> list[tuple[float, float, int]]:
    """`_readings`, the answer's number with each sign that it may have."""
    signs = _signs(number, gold, answer)
    readings = _readings(number, gold, question, answer)
    return [(sign * said, wanted, decimals) for said, wanted, decimals in readings for sign in signs]


def _readings(number: Number, gold: Number, question: str, answer: str) -> list[tuple[float, float, int]]:
    """Pairs (answer, gold) in one unit, each as good a reading as the other, with the decimals of that gold.

    Empty where the units cannot be brought together, as a percentage and an amount of money.
    """
    gold_is_share, said_is_share = gold.unit == "percent", number.unit in ("percent", "basis_points")
    if gold.unit == "basis_points" or gold_is_share or said_is_share:
        return _share_readings(number, gold, question)
    asked = _scale_named(question)
    wanted_scale = gold.scale or asked
    said_scales = {number.scale} if number.scale else {1.0, asked or 1.0, _scale_named(answer) or 1.0}
    if wanted_scale is None:
        # Nobody says in what the gold counts: the answer may well say it, if it is money that both count.
        wanted_scales = {1.0, number.scale or 1.0} if gold.unit == "money" else {1.0}
    else:
        wanted_scales = {wanted_scale}
    return [
        (number.value * said / wanted, gold.value, gold.decimals) for said in said_scales for wanted in wanted_scales
    ]


def _share_readings(number: Number, gold: Number, question: str) -> list[tuple[float, float, int]]:
    """Readings in which a side is a percentage: the other may be one without its sign, or a fraction."""
    if number.unit == "money" or gold.unit == "money" or number.scale or gold.scale:
        return []
    said, wanted = _percent(number), _percent(gold)
    if gold.unit == "plain":
        # A fraction (0.01 for 1%), or a percentage where the question asks for one.
        as_percentage = [(said, gold.value, gold.decimals)] if _ASKS_PERCENT.search(question) else []
        return [(said / 100, gold.value, gold.decimals), *as_percentage]
    readings = [(said, wanted, gold.decimals + (2 if gold.unit == "basis_points" else 0))]
    if number.unit == "plain":
        readings.append((100 * number.value, wanted, gold.decimals))
    return readings


def _percent(number: Number) -> float:
    return number.value / 100 if number.unit == "basis_points" else number.value


def _rounds_to(value: float, gold: float, decimals: int) -> bool:
    """Whether the value, rounded as the gold was, is the gold: 0.0142 for a gold of 0.01. Not for whole golds."""
    if decimals == 0 or not math.isfinite(value) or gold == 0:
        return False
    return abs(value - gold) <= 0.5 * 10.0**-decimals * (1 + 1e-9)


def _signs(number: Number, gold: Number, answer: str) -> set[float]:
    """The factors by which the number may be multiplied: -1 where its sign is a guess or stands in a word."""
    if number.in_parentheses:
        return {1.0, -1.0}
    before = re.split(r"[.;\n]\s", answer[max(0, number.span[0] - 60) : number.span[0]])[-1]
    if gold.value < 0 < number.value and _LOSS.search(_SIGNLESS.sub(" ", before)):
        return {-1.0}
    return {1.0}


def _scale_named(text: str) -> float | None:
    """The scale of "in USD millions", "(in thousands)"; None where none is named."""
    found = _IN_SCALE.search(text)
    return SCALES[found[1].lower()] if found else None
