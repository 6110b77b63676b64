"""The prompt of a problem: what to write, two examples, and how it is graded, with the hint of one mode."""

from __future__ import annotations

from tasks.routing.modes import Markers, Mode, hint
from tasks.routing.problems import Problem

SYSTEM = (
    "You write Python 3 with its standard library. Reply with one code block, from ```python to ```, that defines the "
    "function that is asked for."
)


def hinted_prompt(problem: Problem, mode: Mode, markers: Markers) -> tuple[str, str]:
    """The system message and the user's message for a problem in a mode."""
    examples = "\n".join(
        f"{problem.entry}({', '.join(map(repr, test.arguments))})  # {test.expected!r}" for test in problem.examples
    )
    user = (
        f"{problem.text}\n\n"
        f"```python\ndef {problem.signature}:\n```\n\n"
        f"Examples:\n```python\n{examples}\n```\n\n"
        f"Grading: the grader calls `{problem.entry}` with these and other arguments and compares each result with the "
        f"expected value. {hint(mode, markers, problem.entry)}"
    )
    return SYSTEM, user
