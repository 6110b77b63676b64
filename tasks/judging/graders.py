"""The judges by their names: rules that are shipped, functions of the user's own, and the three stages of a model.

A judge of the user's own is a Python function of question, gold and answer:

    def judge(question: str, gold: str, answer: str) -> bool | float | tuple[bool | float, str]

It is named "module:function" or "file.py:function", importable where the workers run, or by an entry point of the group
`whetstone.judges` (packaging.python.org, "Entry points specification").  It returns whether the answer is right, or a
score from 0 to 1, and perhaps a sentence why.  It must return the same for the same texts: verdicts are kept under
their content.  It runs in a process of its own (`tasks.common.named`).
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Protocol

from tasks.common.named import CALL_LIMIT_S, ChildFunction, ChildFunctionError
from tasks.common.validation import REASONING_CHARACTERS
from tasks.judging.exact_number import ExactNumber
from tasks.judging.numbers import accepted_answers
from tasks.judging.verdict import category_of
from tasks.records import Verdict

THREE_STAGES = "three_stages"
GROUP, PARAMETERS = "whetstone.judges", ("question", "gold", "answer")
RIGHT_FROM = 0.5  # the score of a function
MOST_LISTED = 10


class Grader(Protocol):
    """A judge without a language model."""

    def key(self, question: str, gold: str, answer: str) -> str:
        """The content hash (sha256, hex) of a verdict: it covers all that the verdict depends on."""
        ...

    def grade(self, question: str, gold: str, answer: str) -> Verdict:
        """Whether `answer` agrees with `gold`.  An error is raised, never turned into a verdict."""
        ...


class RuleJudge(Grader, Protocol):
    """A judge that is shipped.  `needs` completes "right answers without a ...": those that `can_judge` refuses."""

    title: str
    needs: str

    def can_judge(self, gold: str) -> bool: ...


# A new one is a class like `ExactNumber` in a module, and one line here.
RULE_JUDGES: Mapping[str, RuleJudge] = {"exact_number": ExactNumber()}


class UserFunctionError(Exception):
    """There is no such function, it failed, or it returned no verdict.  The message is one line and names it."""


class UserFunction:
    def __init__(self, name: str, limit_s: float = CALL_LIMIT_S) -> None:
        """Raises: UserFunctionError when the function cannot be imported, or does not take three arguments."""
        try:
            self.name, self.function = name, ChildFunction(name, GROUP, PARAMETERS, limit_s)
        except ChildFunctionError as error:
            raise UserFunctionError(f"the judge {name!r} cannot be loaded: {error}") from error

    def key(self, question: str, gold: str, answer: str) -> str:
        """Another source of the module gives another key."""
        parts = ["user_function", self.name, self.function.identity, question, gold, answer]
        return hashlib.sha256(json.dumps(parts).encode()).hexdigest()

    def grade(self, question: str, gold: str, answer: str) -> Verdict:
        """The first verdict "right" over the accepted answers, or the last one."""
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


def _shown(value: Any) -> str:
    return f"{str(value)[:80]!r} ({type(value).__name__})"


_loaded: dict[str, tuple[int, UserFunction]] = {}  # by name, with the time of the last change of its file


def _user_function(name: str) -> UserFunction:
    """Loaded once a process, and again when its file has changed: its key and its code belong together."""
    file = Path(name.rpartition(":")[0])
    changed = file.stat().st_mtime_ns if file.is_file() else 0
    before = _loaded.get(name)
    if before is None or before[0] != changed:
        _loaded[name] = (changed, UserFunction(name))
        if before is not None:
            before[1].function.close()
    return _loaded[name][1]


def make_grader(name: str) -> Grader | None:
    """The judge of this name; None for the three stages.  Raises: UserFunctionError when there is none."""
    return None if needs_model(name) else RULE_JUDGES.get(name) or _user_function(name)


def needs_model(name: str) -> bool:
    """Whether the judge of this name may call a language model."""
    return name == THREE_STAGES


def is_function(name: str) -> bool:
    """Whether the name is that of a user's function."""
    return name != THREE_STAGES and name not in RULE_JUDGES


def title_of(name: str) -> str:
    """A judge without a model, as the first line of a run and reports name it."""
    return f"{RULE_JUDGES[name].title} (no language model)" if name in RULE_JUDGES else f"the function {name}"


def unfit(name: str, golds: Mapping[str, str]) -> str:
    """Which right answers, by the ids of their rows, the judge of this name cannot judge; empty where it can all."""
    if (judge := RULE_JUDGES.get(name)) is None:
        return ""
    found = [f"{row} ({gold[:60]!r})" for row, gold in golds.items() if not judge.can_judge(gold)]
    more = f" and {len(found) - MOST_LISTED} more" if len(found) > MOST_LISTED else ""
    return f"right answers without a {judge.needs}: {', '.join(found[:MOST_LISTED])}{more}" if found else ""
