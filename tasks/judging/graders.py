r"""Judges without a language model, beside the three stages (`tasks.judging.verdict`).

Arithmetic by its final number: right is what ends with the same number as the gold, exactly.

The final number of a text is, in this order: the one behind the last "####" (the mark of GSM8K; K. Cobbe et al., arXiv
2110.14168, 2021); the one in the last "\boxed{}"; the one that directly follows the last "the answer is" or "answer:";
the last number of the text.  A mark whose content is no single number that can be read whole holds none.  Units,
currencies and separators do not count: 72, 72.0, $72.00 and 144/2 are equal.  A dash with a space behind it is no sign
but of a list, a range or a subtraction, unless it follows an equals sign.  A number that is denied ("it is not 5") is
passed over.

A judge of the user's own is a Python function of question, gold and answer:

    def judge(question: str, gold: str, answer: str) -> bool | float | tuple[bool | float, str]

It is named "module:function" or "file.py:function", importable where the workers run, or by an entry point of the group
`whetstone.judges` (packaging.python.org, "Entry points specification").  It returns whether the answer is right, or a
score from 0 to 1, and perhaps a sentence why; from 0.5 on an answer counts as right.  It must return the same for the
same texts: verdicts are kept under their content.  It runs in a process of its own (`tasks.common.named`).
"""

from __future__ import annotations

import functools
import hashlib
import json
import re
from bisect import bisect_left
from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

from tasks.common.named import ChildFunction, ChildFunctionError
from tasks.common.validation import REASONING_CHARACTERS
from tasks.judging.numbers import Number, accepted_answers, final_mark, read_numbers, without_thinking
from tasks.judging.verdict import category_of
from tasks.records import Verdict

THREE_STAGES = "three_stages"
RULE_JUDGES = {"exact_number": "exact final number"}
"""The judges without a model that are shipped, with their names in reports."""
MOST_LISTED = 10
VERSION = 4  # counts the rules under which verdicts were cached
GROUP, PARAMETERS = "whetstone.judges", ("question", "gold", "answer")
RIGHT_FROM = 0.5

_STATED = re.compile(
    r"\banswer\b(?:\s+is|\s*[:=])(?:\s+(?:about|approximately|exactly|equal to|thus|therefore))?[\s:*_`\\($\[]*",
    re.IGNORECASE,
)
# What follows the first number of a calculation, which states its result later; two asterisks end bold text.
_GOES_ON = re.compile(r"(?:\s*(?:\*\*|[)%_`$\]]))*+\s*(?:[+*/×÷=]|[-−–]\s*\d|x\s*\d|\\(?:times|cdot|div)\b)")
_DENIED = re.compile(
    r"(?:\bnot|\bcannot|n't|n’t|\bnever|\bneither|\bnor)\s+(?:(?:think|it's|it is|equal to|exactly|just|simply|the"
    r"|be)\s+)*[$€£\\(*]*$",
    re.IGNORECASE,
)
_DENIED_AFTER = re.compile(r"\s(?:is|was|would be)\s(?:not|wrong|incorrect|false)\b", re.IGNORECASE)
_CHOICE = re.compile(r"\s(?:or|to)\s", re.IGNORECASE)
_LOOSE_DASH = re.compile(r"[-−–]\s+(?![-−–])")


class ExactNumber:
    def key(self, question: str, gold: str, answer: str) -> str:
        """The content hash (sha256, hex) of a verdict: it covers all that the verdict depends on."""
        del question
        return hashlib.sha256(json.dumps(["exact_number", VERSION, gold, answer]).encode()).hexdigest()

    def grade(self, question: str, gold: str, answer: str) -> Verdict:
        """Whether `answer` agrees with `gold`.  An error is raised, never turned into a verdict."""
        del question
        expected, given = [final_number(one) for one in accepted_answers(gold)], final_number(without_thinking(answer))
        if None in expected:
            raise ValueError(f"the right answer {gold[:80]!r} has no number; grade this data by another judge")
        if given is None:
            return _verdict(False, "The answer has no final number.")
        if given in expected:
            return _verdict(True, f"The answer's final number is {_short(given)}.")
        wanted = " or ".join(_short(number) for number in expected if number is not None)
        return _verdict(False, f"The answer's final number is {_short(given)}, not {wanted}.")


def lacks_number(gold: str) -> bool:
    """Whether the gold, or one of several accepted answers, has no number to compare."""
    return any(final_number(one) is None for one in accepted_answers(gold))


def final_number(text: str) -> Fraction | None:
    """The number that a text ends with (see the module), or None where it has none."""
    marked = final_mark(text)
    if marked is not None:
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
    while numbers and _is_denied(text, numbers[-1]):
        numbers.pop()
    if not numbers or (len(numbers) > 1 and _CHOICE.fullmatch(text[numbers[-2].span[1] : numbers[-1].span[0]])):
        return None
    return _value(text, numbers[-1])


def _is_denied(text: str, number: Number) -> bool:
    start, end = number.span
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


class UserFunctionError(Exception):
    """There is no such function, it failed, or it returned no verdict.  The message is one line and names it."""


@dataclass(frozen=True)
class UserFunction:
    name: str
    function: ChildFunction

    def key(self, question: str, gold: str, answer: str) -> str:
        """Another source of the module gives another key."""
        parts = ["user_function", self.name, self.function.identity, question, gold, answer]
        return hashlib.sha256(json.dumps(parts).encode()).hexdigest()

    def grade(self, question: str, gold: str, answer: str) -> Verdict:
        """The best verdict over the accepted answers."""
        for one in accepted_answers(gold):
            verdict = self._grade(question, one, answer)
            if verdict.is_correct:
                break
        return verdict

    def _grade(self, question: str, gold: str, answer: str) -> Verdict:
        try:
            result = self.function(question, gold, answer)
        except ChildFunctionError as error:
            raise UserFunctionError(f"the judge {self.name} failed: {error}") from error
        score, reasoning = result if isinstance(result, list) and len(result) == 2 else (result, "")
        if not isinstance(score, bool | int | float) or not 0 <= score <= 1 or not isinstance(reasoning, str):
            raise UserFunctionError(
                f"the judge {self.name} returned {_shown(result)}; it must return True or False, or a score from 0 to "
                "1, or one of these and a text"
            )
        reasoning = reasoning[:REASONING_CHARACTERS].encode("utf-8", "replace").decode()  # halves of surrogate pairs
        is_right = score >= RIGHT_FROM
        said = f"{self.name} says {'right' if is_right else 'wrong'}."
        if not isinstance(score, bool):
            said = f"{self.name} gives {score:g}; right is {RIGHT_FROM:g} or more."
        return Verdict(is_right, stage=1, confidence=1.0, category=category_of(gold), reasoning=reasoning or said)


def load_function(name: str) -> UserFunction:
    """The judge of this name.

    Raises: UserFunctionError when it cannot be imported, or does not take three arguments.
    """
    try:
        return UserFunction(name, ChildFunction(name, GROUP, PARAMETERS))
    except ChildFunctionError as error:
        raise UserFunctionError(f"the judge {name!r} cannot be loaded: {error}") from error


def _shown(value: Any) -> str:
    return f"{str(value)[:80]!r} ({type(value).__name__})"


def make_grader(name: str) -> ExactNumber | UserFunction | None:
    """The judge of this name: one of `RULE_JUDGES`, "module:function", or an entry point; None for the three stages.

    A function is loaded once a process, so that its key and its code belong together when its file changes.
    Raises: UserFunctionError when there is no such function.
    """
    if needs_model(name):
        return None
    return ExactNumber() if name in RULE_JUDGES else _loaded(name)


def needs_model(name: str) -> bool:
    """Whether the judge of this name may call a language model."""
    return name == THREE_STAGES


def is_function(name: str) -> bool:
    """Whether the name is that of a user's function."""
    return name != THREE_STAGES and name not in RULE_JUDGES


def title_of(name: str) -> str:
    """A judge without a model, as the first line of a run and reports name it."""
    return f"{RULE_JUDGES[name]} (no language model)" if name in RULE_JUDGES else f"the function {name}"


def unfit(name: str, golds: Mapping[str, str]) -> str:
    """Which right answers, by the ids of their rows, the judge of this name cannot judge; empty where it can all."""
    found = [f"{row} ({gold[:60]!r})" for row, gold in golds.items() if name in RULE_JUDGES and lacks_number(gold)]
    more = f" and {len(found) - MOST_LISTED} more" if len(found) > MOST_LISTED else ""
    return f"right answers without a number: {', '.join(found[:MOST_LISTED])}{more}" if found else ""


Grader = ExactNumber | UserFunction
_loaded = functools.cache(load_function)
