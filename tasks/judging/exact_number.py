"""Arithmetic by its final number: right is what ends with the same number as the gold, exactly.

The final number of a text is, in this order: the one after the last "####" (the mark of GSM8K; K. Cobbe et al., arXiv
2110.14168, 2021); the one in the last "\\boxed{}"; the one that directly follows the last "the answer is" or "answer:";
the last number of the text.  Units, currencies and thousands separators do not count: 72, 72.0 and $72.00 are equal.  A
dash with a space behind it is no sign but of a list, a range or a subtraction, unless it follows an equals sign.
"""

from __future__ import annotations

import hashlib
import json
import re
from dataclasses import dataclass
from decimal import Decimal
from typing import ClassVar

from tasks.models import Verdict

VERSION = 2  # counts the rules under which verdicts were cached

_SCALES = {"thousand": 3, "million": 6, "billion": 9, "trillion": 12}
_NUMBER = (
    r"(?P<minus>(?<![\w)%.])[-−–](?!\s)|(?<==\s)[-−–])?\s?(?:US)?[$€£]?\s?"
    r"(?P<digits>\d{1,3}(?:(?:,|\{,\})\d{3})+(?!\d)(?:\.\d+)?|\d+(?:\.\d+)?|(?<!\d)\.\d+)"
    rf"(?:\s(?P<scale>{'|'.join(_SCALES)})\b)?"
)
_ANY = re.compile(_NUMBER, re.IGNORECASE)
_MARKED = re.compile(r"####\s*" + _NUMBER, re.IGNORECASE)
_BOXED = re.compile(r"\\boxed\{[^{}\d.−–-]*" + _NUMBER, re.IGNORECASE)
_STATED = re.compile(
    r"\banswer\b(?:\s+is|\s*[:=])(?:\s+(?:about|approximately|exactly|equal to|thus|therefore))?[\s:*_`\\($]*?"
    + _NUMBER
    # Not the first number of a calculation, which states its result later; two asterisks end bold text.
    + r"(?![\d.,]*\d)(?!\s*(?:\*\*|[)%_`$])*+\s*(?:[+*/×÷=]|[-−–]\s*\d|x\s*\d))",
    re.IGNORECASE,
)


class GoldError(ValueError):
    """A gold without a number: this data cannot be graded by exact numbers."""


@dataclass(frozen=True)
class ExactNumber:
    """A grader (see `tasks.judging.grader`) that needs no model."""

    needs_model: ClassVar[bool] = False

    def key(self, question: str, gold: str, answer: str) -> str:
        del question
        return hashlib.sha256(json.dumps(["exact_number", VERSION, gold, answer]).encode()).hexdigest()

    def grade(self, question: str, gold: str, answer: str) -> Verdict:
        """Raises: GoldError when the gold has no number."""
        del question
        expected, given = final_number(gold), final_number(answer)
        if expected is None:
            raise GoldError(f"the right answer {gold[:80]!r} has no number; grade this data by another judge")
        if given is None:
            return _verdict(False, "The answer has no number.")
        if given == expected:
            return _verdict(True, f"The answer's final number is {given:f}.")
        return _verdict(False, f"The answer's final number is {given:f}, not {expected:f}.")


def final_number(text: str) -> Decimal | None:
    """The number that a text ends with (see the module), or None where it has none."""
    for pattern in (_MARKED, _BOXED, _STATED, _ANY):
        matches = list(pattern.finditer(text))
        if matches:
            return _value(matches[-1])
    return None


def _value(match: re.Match[str]) -> Decimal:
    digits = match["digits"].replace("{,}", "").replace(",", "")
    value = Decimal(digits)
    if match["scale"]:
        value = value.scaleb(_SCALES[match["scale"].lower()])
    return -value if match["minus"] else value


def _verdict(is_correct: bool, reasoning: str) -> Verdict:
    return Verdict(is_correct, stage=1, confidence=1.0, category="numerical", reasoning=reasoning)
