"""The rule judge: the number that the answer settles on, then yes or no, then the words shared with the gold.

Numbers are read as stage 1 of the judge reads them (`tasks.judging`).  Only the beginning of a long answer is compared
by its words.  So saying more does not earn a better verdict.
"""

from __future__ import annotations

import math
import re
from dataclasses import dataclass
from typing import Any

from tasks.judging import prompt
from tasks.judging.numbers import Number, read_numbers
from tasks.judging.rule import declines, find_match, in_one_unit, is_close, pure_number
from tasks.judging.settled import is_aside, settled_numbers
from tasks.judging.verdict import Category, category_of
from tasks.judging.yes_no import polarity
from workers.embedded.endpoint.prompt_parser import json_body

SCHEMA_NAME = prompt.SCHEMA_NAME
DEFAULT_TOLERANCE = 0.15
ENOUGH_WORDS = 0.5
# Where the gold has numbers too: with half of them in the answer fewer words do, without them more are needed.
WORDS_WITH_NUMBERS = 0.3
WORDS_WITHOUT_NUMBERS = 0.6

_TOLERANCE = re.compile(r"(\d+(?:\.\d+)?)\s?%")
_WORD = re.compile(r"[a-z][a-z'&]+")
_NEGATIVE = re.compile(r"\b(?:not|no|never|neither|none|without|isn't|doesn't|didn't|wasn't|hasn't)\b|n't\b")
# Broader than stage 1's: prose that cannot tell has no figures to go by.
_CANNOT_TELL = re.compile(
    r"\b(?:cannot|can't|unable to|not possible to|do(?:es)? not (?:have|provide|contain|include)|don't have)\b"
)
# Words that say nothing of what an answer claims.
_EMPTY_WORDS = re.compile(
    "a|an|and|are|as|at|be|been|but|by|did|do|does|for|from|had|has|have|if|in|into|is|it|its|of|on|or|over|per|that|the|"
    "their|them|there|these|they|this|to|was|were|which|while|with|would|will|can|also|than|then|so|such"
)


@dataclass(frozen=True)
class Case:
    """What is to be judged; numbers agree within the relative error `tolerance`."""

    question: str
    gold: str
    said: str
    tolerance: float


@dataclass(frozen=True)
class Finding:
    """What one of the rules found. `gold` and `pred` are the numbers that were compared, in one unit, if any."""

    is_correct: bool
    category: Category
    reasoning: str
    confidence: float
    gold: float | None = None
    pred: float | None = None


def answer(system: str, user: str) -> dict[str, Any]:
    """The reply to `tasks.judging.prompt`. Raises: ValueError for another prompt."""
    question, gold, said = (str(json_body(user, h)) for h in ("Question", "Ground truth", "Answer to judge"))
    found = _TOLERANCE.search(system)
    return _reply(judge(Case(question, gold, said, float(found[1]) / 100 if found else DEFAULT_TOLERANCE)))


def judge(case: Case) -> Finding:
    """Whether what is said agrees with the gold."""
    category = category_of(case.gold)
    if not case.said.strip():
        return Finding(False, category, "The answer is empty.", 0.99)
    target = pure_number(case.gold)
    if target is not None:
        return _by_number(case, target)
    return _by_polarity(case) if category == "yes_no" else _by_words(case, category)


def _by_number(case: Case, target: Number) -> Finding:
    match = find_match(case.question, case.gold, case.said, case.tolerance)
    if match is not None:
        pred, gold = in_one_unit(match.number, target, case.question, case.said) or (None, target.value)
        return Finding(True, "numerical", match.reasoning, 0.9, gold, pred)
    if declines(case.said):
        return Finding(False, "numerical", "The answer says that it lacks the figures.", 0.8, target.value)
    if _is_year(target):
        return _by_year(case, target)
    settled = settled_numbers(case.question, case.said)
    if not settled:
        return Finding(False, "numerical", "The answer gives no number.", 0.95, target.value)
    said = case.said[slice(*settled[0].span)]
    values = in_one_unit(settled[0], target, case.question, case.said)
    if values is None:
        reasoning = f"The answer settles on {said}, which is not of the kind of {case.gold.strip()}."
        return Finding(False, "numerical", reasoning, 0.9, target.value)
    reasoning = f"The answer settles on {said}, which is not within {100 * case.tolerance:g}% of {case.gold.strip()}."
    return Finding(False, "numerical", reasoning, 0.9, gold=values[1], pred=values[0])


def _by_year(case: Case, target: Number) -> Finding:
    """An answer settles on no year, so where the gold is one, the first that the question has not itself is taken."""
    asked = {number.value for number in read_numbers(case.question)}
    years = [n.value for n in read_numbers(case.said) if _is_year(n) and n.value not in asked]
    if not years:
        return Finding(False, "numerical", "The answer gives no year.", 0.9, target.value)
    # No tolerance: 15 % of a year are three centuries. The years are no amounts, so they are not reported as such.
    reasoning = f"The first year of the answer is {years[0]:g}; the gold is {target.value:g}."
    return Finding(years[0] == target.value, "numerical", reasoning, 0.9)


def _by_polarity(case: Case) -> Finding:
    wanted, given = polarity(case.gold), polarity(case.said)
    if given:
        return Finding(given == wanted, "yes_no", f"The answer begins with {given}; the gold says {wanted}.", 0.9)
    if _CANNOT_TELL.search(case.said.lower()):
        return Finding(False, "yes_no", "The answer does not decide.", 0.8)
    first = re.split(r"(?<=[.!?])\s", case.said.strip())[0].lower()
    leaning = "no" if _NEGATIVE.search(first) else "yes"
    if leaning != wanted:
        return Finding(False, "yes_no", f"The answer's first sentence says {leaning}; the gold says {wanted}.", 0.6)
    return _by_words(case, "yes_no")


def _by_words(case: Case, category: Category) -> Finding:
    wanted = _content(case.gold)
    # Three times the gold's length and a sentence: what comes later cannot help.
    beginning = " ".join(case.said.split()[: 3 * len(case.gold.split()) + 20])
    if _CANNOT_TELL.search(beginning.lower()) and not _CANNOT_TELL.search(case.gold.lower()):
        return Finding(False, category, "The answer says that it cannot tell.", 0.8)
    share = len(wanted & _content(beginning)) / len(wanted) if wanted else 0.0
    targets, given = _figures(case.gold), _figures(beginning)
    hits = sum(any(_is_same(number, target, case, beginning) for number in given) for target in targets)
    needed = ENOUGH_WORDS
    if targets:
        needed = WORDS_WITH_NUMBERS if hits >= (len(targets) + 1) // 2 else WORDS_WITHOUT_NUMBERS
    reasoning = f"The answer has {share:.0%} of the gold's words and {hits} of its {len(targets)} numbers."
    return Finding(share >= needed, category, reasoning, 0.7)


def _is_year(number: Number) -> bool:
    return number.unit == "plain" and number.scale is None and not number.decimals and 1900 <= number.value < 2100


def _figures(text: str) -> list[Number]:
    return [number for number in read_numbers(text) if not is_aside(text, number)]


def _is_same(number: Number, target: Number, case: Case, said: str) -> bool:
    """Within a third of the tolerance: of several numbers one is close by chance more often."""
    values = in_one_unit(number, target, case.question, said)
    return values is not None and is_close(*values, case.tolerance / 3)


def _reply(finding: Finding) -> dict[str, Any]:
    gold, pred = _finite(finding.gold), _finite(finding.pred)
    error = None if pred is None or not gold else _finite(100 * abs(pred - gold) / abs(gold))
    return {
        "reasoning": finding.reasoning,
        "category": finding.category,
        "normalized_gt": gold,
        "normalized_pred": pred,
        "relative_error_pct": None if error is None else round(error, 4),
        "confidence": finding.confidence,
        "is_correct": finding.is_correct,
    }


def _finite(value: float | None) -> float | None:
    """JSON has no infinity."""
    return value if value is not None and math.isfinite(value) else None


def _content(text: str) -> set[str]:
    """The words that claim something, without the endings in which the same word differs."""
    words = (word for word in _WORD.findall(text.lower()) if not _EMPTY_WORDS.fullmatch(word))
    return {re.sub(r"(?:'s|ies|es|s|ed|ing)$", "", word) or word for word in words}
