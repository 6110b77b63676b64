"""The rule judge: compares the final number of the answer, then yes or no, then the words shared with the gold.

Numbers are read as stage 1 of the judge reads them (`tasks.judging`).  Of a long answer only the beginning is compared
by its words, so a longer answer does not get a better verdict.
"""

from __future__ import annotations

import json
import math
import re
import unicodedata
from dataclasses import dataclass
from typing import Any

from tasks.judging.numbers import Number, accepted_answers, read_numbers
from tasks.judging.rule import declines, find_match, in_gold_unit, is_close, pure_number
from tasks.judging.settled_number import is_incidental, settled_numbers
from tasks.judging.verdict import Category, category_of, polarity
from workers.embedded.rules.sections import json_section

DEFAULT_TOLERANCE = 0.15
ENOUGH_WORDS = 0.5
# For a gold with numbers too: with half of them in the answer fewer words are needed, without them more.
WORDS_WITH_NUMBERS = 0.3
WORDS_WITHOUT_NUMBERS = 0.6

_TOLERANCE = re.compile(r"(\d+(?:\.\d+)?)\s?%")
_WORD = re.compile(r"[^\W\d_](?:[^\W\d_]|['’&](?=[^\W\d_]))*")
# Scripts without spaces between words.
_UNSPACED = re.compile(r"[\u0e00-\u0e7f\u3040-\u30ff\u3400-\u9fff\uac00-\ud7af]+")
SHORT_GOLD = 3  # words, all of which an answer must have: a name has no unimportant word
_NEGATIVE = re.compile(r"\b(?:not|no|never|neither|none|without|isn't|doesn't|didn't|wasn't|hasn't)\b|n't\b")
# Broader than in stage 1: prose that cannot answer has no figures to compare.
_CANNOT_TELL = re.compile(
    r"\b(?:cannot|can't|unable to|not possible to|do(?:es)? not (?:have|provide|contain|include)|don't have)\b"
)
_CERTAINLY = re.compile(r"\b(?:no (?:doubt|question|wonder)|not only|without (?:a )?doubt)\b")
# Words that do not carry the claim of an answer.
_STOP_WORDS = re.compile(
    "a|an|and|are|as|at|be|been|but|by|did|do|does|for|from|had|has|have|if|in|into|is|it|its|of|on|or|over|per|that|the|"
    "their|them|there|these|they|this|to|was|were|which|while|with|would|will|can|also|than|then|so|such"
)
MOST_NUMBERS = 50  # of a gold and of an answer that are compared


@dataclass(frozen=True)
class JudgeInput:
    question: str
    gold: str
    answer: str
    tolerance: float  # the relative error within which numbers agree


def answer(system: str, user: str) -> dict[str, Any]:
    """The reply to `tasks.judging.verdict`."""
    question, text = str(json_section(user, "Question")), str(json_section(user, "Answer to judge"))
    listed = json_section(user, "Ground truth")
    gold = listed if isinstance(listed, str) else json.dumps(listed)
    match = _TOLERANCE.search(system)
    tolerance = float(match[1]) / 100 if match else DEFAULT_TOLERANCE
    replies = [judge_by_rules(JudgeInput(question, one, text, tolerance)) for one in accepted_answers(gold)]
    return next((reply for reply in replies if reply["is_correct"]), replies[0])


Amount = float | None


def _verdict(
    is_correct: bool, category: Category, reasoning: str, confidence: float, gold: Amount = None, pred: Amount = None
) -> dict[str, Any]:
    """The reply; `gold` and `pred` are the numbers that were compared, in one unit, if any."""
    gold, pred = _finite(gold), _finite(pred)
    error = None if pred is None or not gold else _finite(100 * abs(pred - gold) / abs(gold))
    return {
        "reasoning": reasoning,
        "category": category,
        "normalized_gt": gold,
        "normalized_pred": pred,
        "relative_error_pct": None if error is None else round(error, 4),
        "confidence": confidence,
        "is_correct": is_correct,
    }


def _finite(value: Amount) -> Amount:
    """JSON has no infinity."""
    return value if value is not None and math.isfinite(value) else None


def judge_by_rules(case: JudgeInput) -> dict[str, Any]:
    category = category_of(case.gold)
    if not case.answer.strip():
        return _verdict(False, category, "The answer is empty.", 0.99)
    target = pure_number(case.gold)
    if target is not None:
        return _by_number(case, target)
    return _by_polarity(case) if category == "yes_no" else _by_words(case, category)


def _by_number(case: JudgeInput, target: Number) -> dict[str, Any]:
    match = find_match(case.question, case.gold, case.answer, case.tolerance)
    if match is not None:
        number, reasoning = match
        pred = in_gold_unit(number, target, case.question, case.answer)
        return _verdict(True, "numerical", reasoning, 0.9, target.value, pred)
    if declines(case.answer):
        return _verdict(False, "numerical", "The answer says that it lacks the figures.", 0.8, target.value)
    if _is_year(target):
        return _by_year(case, target)
    numbers = settled_numbers(case.question, case.answer)
    if not numbers:
        return _verdict(False, "numerical", "The answer settles on no number.", 0.95, target.value)
    said = case.answer[slice(*numbers[0].span)]
    pred = in_gold_unit(numbers[0], target, case.question, case.answer)
    limit = "of the kind" if pred is None else f"within {100 * case.tolerance:g}%"
    reasoning = f"The answer settles on {said}, which is not {limit} of {case.gold.strip()}."
    return _verdict(False, "numerical", reasoning, 0.9, target.value, pred)


def _by_year(case: JudgeInput, target: Number) -> dict[str, Any]:
    """For a gold that is a year: the first year of the answer that is not in the question."""
    in_question = {number.value for number in read_numbers(case.question)}
    years = [n.value for n in read_numbers(case.answer) if _is_year(n) and n.value not in in_question]
    if not years:
        return _verdict(False, "numerical", "The answer gives no year.", 0.9, target.value)
    # No tolerance: 15 % of a year are three centuries. Years are not amounts, so they are not reported as numbers.
    reasoning = f"The first year of the answer is {years[0]:g}; the gold is {target.value:g}."
    return _verdict(years[0] == target.value, "numerical", reasoning, 0.9)


def _by_polarity(case: JudgeInput) -> dict[str, Any]:
    wanted, given = polarity(case.gold), polarity(case.answer)
    if given:
        return _verdict(given == wanted, "yes_no", f"The answer begins with {given}; the gold says {wanted}.", 0.9)
    if _CANNOT_TELL.search(case.answer.lower()):
        return _verdict(False, "yes_no", "The answer does not decide.", 0.8)
    first = _CERTAINLY.sub(" ", re.split(r"(?<=[.!?])\s", case.answer.strip())[0].lower())
    leaning = "no" if _NEGATIVE.search(first) else "yes"
    if leaning != wanted:
        return _verdict(False, "yes_no", f"The answer's first sentence says {leaning}; the gold says {wanted}.", 0.6)
    if not _content(case.gold) - _content(str(wanted)):
        # The gold gives no reason to compare: the question's words must be there.
        asked = _content(case.question)
        share = len(asked & _content(first)) / len(asked) if asked else 0.0
        reasoning = f"The answer says {leaning} to {share:.0%} of the question."
        return _verdict(share >= ENOUGH_WORDS, "yes_no", reasoning, 0.6)
    return _by_words(case, "yes_no")


def _by_words(case: JudgeInput, category: Category) -> dict[str, Any]:
    wanted = _content(case.gold)
    # Three times the gold's length and a sentence; the rest is not compared.
    beginning = " ".join(case.answer.split()[: 3 * len(case.gold.split()) + 20])
    if _CANNOT_TELL.search(beginning.lower()) and not _CANNOT_TELL.search(case.gold.lower()):
        return _verdict(False, category, "The answer says that it cannot tell.", 0.8)
    if _plain(case.gold) and _plain(case.gold) == _plain(case.answer):
        return _verdict(True, category, "The answer is the gold.", 0.99)
    in_question = _years(case.question)
    years, given_years = _years(case.gold) - in_question, _years(beginning) - in_question
    if years and not years & given_years and (given_years or len(wanted) <= SHORT_GOLD):
        return _verdict(False, category, "The answer does not name the gold's year.", 0.8)
    if _is_denied_or_chosen(case.gold, beginning):
        return _verdict(False, category, "The answer denies the gold, or leaves a choice.", 0.8)
    if len(wanted) <= SHORT_GOLD and not _digits(case.gold) <= _digits(beginning):
        return _verdict(False, category, "The answer does not have the gold's numbers.", 0.8)
    share = len(wanted & _content(beginning)) / len(wanted) if wanted else 0.0
    targets, given = _figures(case.gold), _figures(beginning)
    hits = sum(any(_is_same(number, target, case, beginning) for number in given) for target in targets)
    is_name = len(wanted) <= SHORT_GOLD and category == "text"
    needed = 1.0 if is_name else ENOUGH_WORDS
    if targets and not is_name:
        needed = WORDS_WITH_NUMBERS if hits >= (len(targets) + 1) // 2 else WORDS_WITHOUT_NUMBERS
    reasoning = f"The answer has {share:.0%} of the gold's words and {hits} of its {len(targets)} numbers."
    return _verdict(share >= needed, category, reasoning, 0.7)


def _is_year(number: Number) -> bool:
    return number.unit == "plain" and number.scale is None and not number.decimals and 1900 <= number.value < 2100


def _figures(text: str) -> list[Number]:
    """Among the first numbers of a text; the time to compare two texts grows with the product of their numbers."""
    return [number for number in read_numbers(text)[:MOST_NUMBERS] if not is_incidental(text, number)]


def _is_same(number: Number, target: Number, case: JudgeInput, text: str) -> bool:
    """Within a third of the tolerance, because one of several numbers is close by chance more often."""
    value = in_gold_unit(number, target, case.question, text)
    return value is not None and is_close(value, target.value, case.tolerance / 3)


def _content(text: str) -> set[str]:
    """The words that carry a claim, without the endings in which forms of a word differ."""
    words = (word for word in _WORD.findall(text.lower()) if not _STOP_WORDS.fullmatch(word))
    return {part for word in words for part in _parts(word)}


def _parts(word: str) -> set[str]:
    """A word without its ending; of a run in a script without spaces, its pairs of letters."""
    if _UNSPACED.fullmatch(word):
        return {word[i : i + 2] for i in range(max(1, len(word) - 1))}
    plain = "".join(letter for letter in unicodedata.normalize("NFKD", word) if not unicodedata.combining(letter))
    return {re.sub(r"(?:['’]s|ies|es|s|ed|ing)$", "", plain) or plain}


def _plain(text: str) -> str:
    """A text without case, width and the marks around it."""
    return re.sub(r"^[\W_]+|[\W_]+$", "", unicodedata.normalize("NFKC", text).casefold())


def _is_denied_or_chosen(gold: str, text: str) -> bool:
    """Whether the gold stands behind a denial, or before or behind an "or" that the gold does not have."""
    found = re.escape(_plain(gold))
    plain = unicodedata.normalize("NFKC", text).casefold()
    denied = re.search(rf"(?:\b(?:not|neither|nor)\s|n['’]t\s|不是\s?)(?:the\s)?{found}", plain)
    chosen = re.search(rf"\b{found}\s+or\s+\w|\w\s+or\s+{found}\b", plain)
    return bool(found and (denied or chosen))


def _digits(text: str) -> set[str]:
    """The runs of digits with the letters that they are written with: 747, b12, h2o."""
    return {word for word in re.findall(r"\w+", text.casefold()) if any(letter.isdigit() for letter in word)}


def _years(text: str) -> set[float]:
    return {number.value for number in read_numbers(text) if _is_year(number)}
