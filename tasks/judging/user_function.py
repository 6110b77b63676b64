"""A judge of the user's own: a Python function of question, gold and answer.

    def judge(question: str, gold: str, answer: str) -> bool | tuple[bool, str]

It is named "module:function", importable where the workers run, or by an entry point of the group `whetstone.judges`
(packaging.python.org, "Entry points specification").  It returns whether the answer is right, or that and a sentence
why.  It must return the same for the same texts: verdicts are kept under their content.
"""

from __future__ import annotations

import hashlib
import inspect
import json
import sys
import threading
from collections.abc import Callable
from contextlib import redirect_stdout
from dataclasses import dataclass
from typing import Any, ClassVar

from tasks.escape import first_line
from tasks.judging.verdict import category_of
from tasks.limits import REASONING_CHARACTERS
from tasks.models import Verdict
from tasks.named import load_named, source_identity

GROUP = "whetstone.judges"


class UserFunctionError(Exception):
    """There is no such function, it failed, or it returned no verdict.  The message is one line and names it."""


@dataclass(frozen=True)
class UserFunction:
    """A grader (see `tasks.judging.grader`).  `identity` is of the module's source: another source, another key."""

    name: str
    function: Callable[[str, str, str], Any]
    identity: str
    needs_model: ClassVar[bool] = False

    def key(self, question: str, gold: str, answer: str) -> str:
        parts = ["user_function", self.name, self.identity, question, gold, answer]
        return hashlib.sha256(json.dumps(parts).encode()).hexdigest()

    def grade(self, question: str, gold: str, answer: str) -> Verdict:
        """Raises: UserFunctionError when the function fails or returns something else."""
        try:
            result = self.function(question, gold, answer)
        except BaseException as error:  # sys.exit would end the worker's thread and not the run
            if _may_be_a_signal(error):
                raise
            raise UserFunctionError(
                f"the judge {self.name} failed: {type(error).__name__}: {first_line(error)}"
            ) from error
        is_correct, reasoning = result if isinstance(result, tuple) and len(result) == 2 else (result, "")
        if not isinstance(is_correct, bool) or not isinstance(reasoning, str):
            raise UserFunctionError(
                f"the judge {self.name} returned {_shown(result)} ({_class_of(result)}); "
                "it must return True or False (bool), or that and a text"
            )
        if len(reasoning) > REASONING_CHARACTERS:
            raise UserFunctionError(
                f"the judge {self.name} returned a reason of {len(reasoning):,} characters; "
                f"it may have {REASONING_CHARACTERS:,} at most"
            )
        said = reasoning or f"{self.name} says {'right' if is_correct else 'wrong'}."
        return Verdict(is_correct, stage=1, confidence=1.0, category=category_of(gold), reasoning=said)


def load_function(name: str) -> UserFunction:
    """The judge "module:function", or the one that the entry point `name` names.

    Raises: UserFunctionError when it cannot be imported, or does not take three arguments.
    """
    try:
        with redirect_stdout(sys.stderr):  # what a module prints is no output of the command that loads it
            function = load_named(name, GROUP)
    except (Exception, SystemExit) as error:  # a user's module may raise whatever it likes while it is imported
        raise UserFunctionError(f"the judge {name!r} cannot be loaded: {first_line(error)}") from error
    if not callable(function):
        raise UserFunctionError(f"the judge {name!r} is no function")
    try:
        inspect.signature(function).bind("question", "gold", "answer")
    except TypeError as error:
        raise UserFunctionError(f"the judge {name!r} must take (question, gold, answer): {error}") from error
    except ValueError:  # written in C: its first call will show
        pass
    return UserFunction(name, function, source_identity(function))


def _may_be_a_signal(error: BaseException) -> bool:
    """Whether it may have been raised for a signal, which only the main thread gets, and not by the function."""
    is_ordinary = isinstance(error, Exception | SystemExit)
    return not is_ordinary and threading.current_thread() is threading.main_thread()


def _class_of(value: Any) -> str:
    """The name of a value's class with its module: numpy's own truth values are no `bool`, but bear its name."""
    kind = type(value)
    return kind.__name__ if kind.__module__ == "builtins" else f"{kind.__module__}.{kind.__name__}"


def _shown(value: Any) -> str:
    """The beginning of a value, which may be of any class: its own text may be endless, or fail."""
    try:
        return repr(str(value)[:80])
    except Exception as error:
        return f"a value without a text ({type(error).__name__})"
