"""The rule judge: numbers first, then yes or no, then the words that the answer shares with the gold.

Only the beginning of a long answer is compared by its words, so that saying more does not earn a better verdict.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any

from workers.embedded.endpoint.numbers import Number, numbers, relative_error
from workers.embedded.endpoint.sections import body, json_body

SCHEMA_NAME = "verdict"
DEFAULT_TOLERANCE = 0.15
ENOUGH_WORDS = 0.5
# Where the gold has numbers too: with half of them in the answer fewer words do, without them more are needed.
WORDS_WITH_NUMBERS = 0.3
WORDS_WITHOUT_NUMBERS = 0.6

_TOLERANCE = re.compile(r"(\d+(?:\.\d+)?)\s?%")
_WORD = re.compile(r"[a-z][a-z'&]+")
_YES_NO = re.compile(r"\s*[\W_]*(yes|no)\b", re.IGNORECASE)
_NEGATIVE = re.compile(r"\b(?:not|no|never|neither|none|without|isn't|doesn't|didn't|wasn't|hasn't)\b|n't\b")
_DECLINES = re.compile(
    r"\b(?:cannot|can't|unable to|not possible to|do(?:es)? not (?:have|provide|contain|include)|don't have)\b"
)
# Words that say nothing of what an answer claims.
_EMPTY_WORDS = re.compile(
    "a|an|and|are|as|at|be|been|but|by|did|do|does|for|from|had|has|have|if|in|into|is|it|its|of|on|or|over|per|that|the|"
    "their|them|there|these|they|this|to|was|were|which|while|with|would|will|can|also|than|then|so|such"
)


@dataclass(frozen=True)
class Finding:
    """What one of the rules found. `gold` and `pred` are the numbers that were compared, if any."""

    is_correct: bool
    category: str
    reasoning: str
    confidence: float
    gold: Number | None = None
    pred: Number | None = None


def answer(system: str, user: str) -> dict[str, Any]:
    """The reply to the judge's prompt. Raises: ValueError for another prompt."""
    gold, said = str(json_body(user, "Ground truth")), str(json_body(user, "Answer to judge"))
    body(user, "Question")  # no rule needs it, but a prompt without one is not the judge's
    return _reply(judge(gold, said, _tolerance(system)))


def judge(gold: str, said: str, tolerance: float) -> Finding:
    """Whether `said` agrees with `gold`; numbers agree within the relative error `tolerance`."""
    if not said.strip():
        return Finding(False, _category(gold), "The answer is empty.", 0.99)
    if _is_number(gold):
        return _by_number(gold, said, tolerance)
    polarity = _YES_NO.match(gold)
    if polarity:
        return _by_polarity(polarity[1].lower(), gold, said, tolerance)
    return _by_words(gold, said, tolerance, "text")


def _by_number(gold: str, said: str, tolerance: float) -> Finding:
    target = _amounts(gold)[0]
    tolerance = 0.0 if target.is_year else tolerance  # 15 % of a year is three centuries
    found = [number for number in numbers(said) if target.is_year or not number.is_year]
    if not found:
        return Finding(False, "numerical", "The answer gives no number.", 0.95, target)
    best = min(found, key=lambda number: relative_error(number, target))
    error = relative_error(best, target)
    if error <= tolerance:
        reasoning = f"The answer gives {best.value:g}, within {tolerance:.0%} of {target.value:g}."
        return Finding(True, "numerical", reasoning, 0.9, target, best)
    reasoning = f"The nearest number of the answer, {best.value:g}, is not within {tolerance:.0%} of {target.value:g}."
    return Finding(False, "numerical", reasoning, 0.9, target, best)


def _by_polarity(wanted: str, gold: str, said: str, tolerance: float) -> Finding:
    given = _YES_NO.match(said)
    if given:
        agrees = given[1].lower() == wanted
        return Finding(agrees, "yes_no", f"The answer begins with {given[1].lower()}; the gold says {wanted}.", 0.9)
    if _DECLINES.search(said.lower()):
        return Finding(False, "yes_no", "The answer does not decide.", 0.8)
    first = re.split(r"(?<=[.!?])\s", said.strip())[0].lower()
    leaning = "no" if _NEGATIVE.search(first) else "yes"
    if leaning != wanted:
        return Finding(False, "yes_no", f"The answer's first sentence says {leaning}; the gold says {wanted}.", 0.6)
    return _by_words(gold, said, tolerance, "yes_no")


def _by_words(gold: str, said: str, tolerance: float, category: str) -> Finding:
    wanted = _content(gold)
    # Three times the gold's length and a sentence: what comes later cannot help.
    beginning = " ".join(said.split()[: 3 * len(gold.split()) + 20])
    if _DECLINES.search(beginning.lower()) and not _DECLINES.search(gold.lower()):
        return Finding(False, category, "The answer says that it cannot tell.", 0.8)
    share = len(wanted & _content(beginning)) / len(wanted) if wanted else 0.0
    targets = [number for number in numbers(gold) if not number.is_year]
    given = [number for number in numbers(beginning) if not number.is_year]
    hits = sum(any(relative_error(number, target) <= tolerance / 3 for number in given) for target in targets)
    needed = ENOUGH_WORDS
    if targets:
        needed = WORDS_WITH_NUMBERS if hits >= (len(targets) + 1) // 2 else WORDS_WITHOUT_NUMBERS
    reasoning = f"The answer has {share:.0%} of the gold's words and {hits} of its {len(targets)} numbers."
    return Finding(share >= needed, category, reasoning, 0.7)


def _reply(finding: Finding) -> dict[str, Any]:
    has_both = finding.gold is not None and finding.pred is not None
    error = relative_error(finding.pred, finding.gold) if finding.pred and finding.gold else None
    return {
        "reasoning": finding.reasoning,
        "category": finding.category,
        "normalized_gt": finding.gold.value * finding.gold.scale if finding.gold else None,
        "normalized_pred": finding.pred.value * finding.pred.scale if finding.pred else None,
        "relative_error_pct": round(100 * error, 4) if has_both and error is not None and error < 1e6 else None,
        "confidence": finding.confidence,
        "is_correct": finding.is_correct,
    }


def _tolerance(system: str) -> float:
    found = _TOLERANCE.search(system)
    return float(found[1]) / 100 if found else DEFAULT_TOLERANCE


def _is_number(gold: str) -> bool:
    """One number and at most two words around it ("$1577.00", "65.4%", "12.3 times")."""
    return len(_amounts(gold)) == 1 and len(_WORD.findall(gold.lower())) <= 2


def _amounts(text: str) -> list[Number]:
    """The numbers that are no years; the years, where there is nothing else."""
    found = numbers(text)
    return [number for number in found if not number.is_year] or found


def _category(gold: str) -> str:
    if _is_number(gold):
        return "numerical"
    return "yes_no" if _YES_NO.match(gold) else "text"


def _content(text: str) -> set[str]:
    """The words that claim something, without the endings in which the same word differs."""
    words = (word for word in _WORD.findall(text.lower()) if not _EMPTY_WORDS.fullmatch(word))
    return {re.sub(r"(?:'s|ies|es|s|ed|ing)$", "", word) or word for word in words}
