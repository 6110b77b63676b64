"""Who decides whether an answer is right: one interface, and the three-stage judge behind it.

Beside the three stages there are judges by fixed rules (`RULE_JUDGES`) and `user_function.UserFunction` for a function
of the user's own.  `make_grader` picks one by the name that the settings give.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import ClassVar, Protocol

from tasks.judging.exact_number import ExactNumber, lacks_number
from tasks.judging.user_function import load_function
from tasks.judging.verdict import Ask, judge, verdict_key
from tasks.records import Judge, Verdict

THREE_STAGES = "three_stages"
MOST_LISTED = 10


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
        return judge(question, gold, answer, self.settings, self.ask)


@dataclass(frozen=True)
class RuleJudge:
    """A judge without a language model: its grader, its name in reports, and what a right answer must have for it.

    `lacks` says whether a right answer has nothing of `needs`.
    """

    make: Callable[[], Grader]
    title: str
    needs: str
    lacks: Callable[[str], bool]


RULE_JUDGES = {"exact_number": RuleJudge(ExactNumber, "exact final number", "number", lacks_number)}


def make_grader(name: str, three_stages: Callable[[], Grader]) -> Grader:
    """The grader of this name: "three_stages", one of `RULE_JUDGES`, "module:function", or the name of an entry point.

    `three_stages` is called only where that judge is chosen: it needs an endpoint.  A function is loaded once a
    process, so that its key and its code belong together when its file changes.
    Raises: UserFunctionError when there is no such function.
    """
    if name == THREE_STAGES:
        return three_stages()
    return RULE_JUDGES[name].make() if name in RULE_JUDGES else _loaded(name)


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
    rule = RULE_JUDGES.get(name)
    found = [f"{row} ({gold[:60]!r})" for row, gold in golds.items() if rule is not None and rule.lacks(gold)]
    if rule is None or not found:
        return ""
    more = f" and {len(found) - MOST_LISTED} more" if len(found) > MOST_LISTED else ""
    return f"right answers without a {rule.needs}: {', '.join(found[:MOST_LISTED])}{more}"


_loaded = functools.cache(load_function)
