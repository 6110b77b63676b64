r"""Arithmetic by its final number: right is what ends with the same number as the gold, exactly.

The final number of a text is, in this order: the one behind the last "####" (the mark of GSM8K; K. Cobbe et al., arXiv
2110.14168, 2021); the one in the last "\boxed{}"; the one that directly follows the last "the answer is" or "answer:";
the last number of the text.  A mark whose content is no single number that can be read whole holds none.  Units,
currencies and separators do not count: 72, 72.0, $72.00 and 144/2 are equal.  A dash with a space behind it is no sign
but of a list, a range or a subtraction, unless it follows an equals sign.  A number that is denied ("it is not 5") is
passed over.
"""

from __future__ import annotations

import hashlib
import json
import re
from bisect import bisect_left
from fractions import Fraction

from tasks.judging.numbers import Number, accepted_answers, final_mark, read_numbers, without_thinking
from tasks.records import Verdict

VERSION = 4  # counts the rules under which verdicts were cached

_STATED = re.compile(
    r"(?i)\banswer\b(?:\s+is|\s*[:=])(?:\s+(?:about|approximately|exactly|equal to|thus|therefore))?[\s:*_`\\($\[]*"
)
# What follows the first number of a calculation, which states its result later; two asterisks end bold text.
_GOES_ON = re.compile(r"(?:\s*(?:\*\*|[)%_`$\]]))*+\s*(?:[+*/×÷=]|[-−–]\s*\d|x\s*\d|\\(?:times|cdot|div)\b)")
_DENIED = re.compile(
    r"(?i)(?:\bnot|\bcannot|n't|n’t|\bnever|\bneither|\bnor)\s+"
    r"(?:(?:think|it's|it is|equal to|exactly|just|simply|the|be)\s+)*[$€£\\(*]*$"
)
_DENIED_AFTER = re.compile(r"(?i)\s(?:is|was|would be)\s(?:not|wrong|incorrect|false)\b")
_CHOICE = re.compile(r"(?i)\s(?:or|to)\s")
_LOOSE_DASH = re.compile(r"[-−–]\s+(?![-−–])")


class ExactNumber:
    """A `tasks.judging.graders.RuleJudge`."""

    title, needs = "exact final number", "number"

    def key(self, question: str, gold: str, answer: str) -> str:
        return hashlib.sha256(json.dumps(["exact_number", VERSION, gold, answer]).encode()).hexdigest()

    def grade(self, question: str, gold: str, answer: str) -> Verdict:
        expected, given = [final_number(one) for one in accepted_answers(gold)], final_number(without_thinking(answer))
        if None in expected:
            raise ValueError(f"the right answer {gold[:80]!r} has no number; grade this data by another judge")
        if given is None:
            return _verdict(False, "The answer has no final number.")
        if given in expected:
            return _verdict(True, f"The answer's final number is {_short(given)}.")
        wanted = " or ".join(_short(number) for number in expected if number is not None)
        return _verdict(False, f"The answer's final number is {_short(given)}, not {wanted}.")

    def can_judge(self, gold: str) -> bool:
        return all(final_number(one) is not None for one in accepted_answers(gold))


def final_number(text: str) -> Fraction | None:
    """The number that a text ends with (see the module), or None where it has none."""
    if (marked := final_mark(text)) is not None:
        numbers = _numbers(marked.text)
        is_clear = numbers and (marked.is_line or len(numbers) == 1)
        return _value(marked.text, numbers[0]) if is_clear else None
    numbers = _numbers(text)
    starts = [number.span[0] for number in numbers]
    for stated in reversed(list(_STATED.finditer(text))):
        for number in numbers[bisect_left(starts, stated.start()) :][:1]:
            start, end = number.span
            if start <= stated.end() <= end and not _GOES_ON.match(text, end):
                return _value(text, number)
    while numbers and _is_denied(text, *numbers[-1].span):
        numbers.pop()
    if not numbers or (len(numbers) > 1 and _CHOICE.fullmatch(text[numbers[-2].span[1] : numbers[-1].span[0]])):
        return None
    return _value(text, numbers[-1])


def _is_denied(text: str, start: int, end: int) -> bool:
    return bool(_DENIED.search(text[max(0, start - 40) : start]) or _DENIED_AFTER.match(text, end))


def _numbers(text: str) -> list[Number]:
    return read_numbers(text, short_scales=False)


def _value(text: str, number: Number) -> Fraction:
    start, _ = number.span
    is_loose = _LOOSE_DASH.match(text, start) is not None and not text[:start].rstrip().endswith("=")
    total = number.total
    # Brackets are no sign here: "(5)" is an aside.
    return -total if (is_loose or number.in_parentheses) and total < 0 else total


def _short(value: Fraction) -> str:
    return str(value) if value.denominator == 1 else f"{float(value):.10g}"


def _verdict(is_correct: bool, reasoning: str) -> Verdict:
    return Verdict(is_correct, stage=1, confidence=1.0, category="numerical", reasoning=reasoning)
