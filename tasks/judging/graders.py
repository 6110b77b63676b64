"""The judges by their names: rules that are shipped, functions of the user's own, and the three stages of a model.

A new judge by rules is one module with a class based on `Grader`, and one line of `RULE_JUDGES`.
"""

from __future__ import annotations

import functools
from collections.abc import Mapping

from tasks.judging.base import Grader
from tasks.judging.exact_number import ExactNumber
from tasks.judging.user_function import load_function

THREE_STAGES = "three_stages"
RULE_JUDGES: Mapping[str, Grader] = {"exact_number": ExactNumber()}
MOST_LISTED = 10


def make_grader(name: str) -> Grader | None:
    """The judge of this name: one of `RULE_JUDGES`, "module:function", or an entry point; None for the three stages.

    A function is loaded once a process, so that its key and its code belong together when its file changes.
    Raises: UserFunctionError when there is no such function.
    """
    if needs_model(name):
        return None
    return RULE_JUDGES.get(name) or _loaded(name)


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
    judge = RULE_JUDGES.get(name)
    if judge is None:
        return ""
    found = [f"{row} ({gold[:60]!r})" for row, gold in golds.items() if not judge.can_judge(gold)]
    more = f" and {len(found) - MOST_LISTED} more" if len(found) > MOST_LISTED else ""
    return f"right answers without a {judge.needs}: {', '.join(found[:MOST_LISTED])}{more}" if found else ""


_loaded = functools.cache(load_function)
