"""A judge of the user's own is a Python function of question, gold and answer:

    def judge(question: str, gold: str, answer: str) -> bool | float | tuple[bool | float, str]

It is named "module:function" or "file.py:function", importable where the workers run, or by an entry point of the group
`whetstone.judges` (packaging.python.org, "Entry points specification").  It returns whether the answer is right, or a
score from 0 to 1, and perhaps a sentence why; from 0.5 on an answer counts as right.  It must return the same for the
same texts: verdicts are kept under their content.  It runs in a process of its own (`tasks.common.named`).
"""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass
from typing import Any

from tasks.common.named import ChildFunction, ChildFunctionError
from tasks.common.validation import REASONING_CHARACTERS
from tasks.judging.base import Grader
from tasks.judging.numbers import accepted_answers
from tasks.judging.verdict import category_of
from tasks.records import Verdict

GROUP, PARAMETERS = "whetstone.judges", ("question", "gold", "answer")
RIGHT_FROM = 0.5


class UserFunctionError(Exception):
    """There is no such function, it failed, or it returned no verdict.  The message is one line and names it."""


@dataclass(frozen=True)
class UserFunction(Grader):
    title = "a function"

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
