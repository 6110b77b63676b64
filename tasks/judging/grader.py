"""Who decides whether an answer is right: one interface, and the three-stage judge behind it.

Beside the three stages there are `exact_number.ExactNumber` for arithmetic and `user_function.UserFunction` for a
function of the user's own.  `make_grader` picks one by the name that the settings give.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from dataclasses import dataclass
from typing import ClassVar, Protocol

from tasks.judging.exact_number import ExactNumber
from tasks.judging.user_function import load_function
from tasks.judging.verdict import Ask, judge, verdict_key
from tasks.records import Judge, Verdict

THREE_STAGES, EXACT_NUMBER = "three_stages", "exact_number"


class Grader(Protocol):
    """Grades answers.  `needs_model` says whether a verdict may take a call to a language model."""

    needs_model: ClassVar[bool]

    def key(self, question: str, gold: str, answer: str) -> str:
        """The content hash (sha256, hex) of a verdict: it covers all that the verdict depends on."""
        ...

    def grade(self, question: str, gold: str, answer: str) -> Verdict:
        """Whether `answer` agrees with `gold`.  An error is raised, never turned into a verdict."""
        ...


@dataclass(frozen=True)
class ThreeStages:
    """Numbers by rule, then a model, then the arithmetic of its reply; see `tasks.judging.verdict`.

    `ask` puts a question to the judging model; `address` names where it is.
    """

    settings: Judge
    ask: Ask
    address: str
    needs_model: ClassVar[bool] = True

    def key(self, question: str, gold: str, answer: str) -> str:
        return verdict_key(question, gold, answer, self.settings, self.address)

    def grade(self, question: str, gold: str, answer: str) -> Verdict:
        """Raises: JudgeReplyError, and whatever `ask` raises."""
        return judge(question, gold, answer, self.settings, self.ask)


def make_grader(name: str, three_stages: Callable[[], Grader]) -> Grader:
    """The grader of this name: "three_stages", "exact_number", "module:function", or the name of an entry point.

    `three_stages` is called only where that judge is chosen: it needs an endpoint.  A function is loaded once a
    process, so that its key and its code belong together when its file changes.
    Raises: UserFunctionError when there is no such function.
    """
    if name == THREE_STAGES:
        return three_stages()
    if name == EXACT_NUMBER:
        return ExactNumber()
    return _loaded(name)


def needs_model(name: str) -> bool:
    """Whether the judge of this name may call a language model."""
    return name == THREE_STAGES


def title_of(name: str) -> str:
    """A judge without a model, as the first line of a run and reports name it."""
    return "exact final number (no language model)" if name == EXACT_NUMBER else f"the function {name}"


_loaded = functools.cache(load_function)
