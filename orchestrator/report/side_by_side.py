"""Both answers to each example side by side, for `orchestrator answers RUN`."""

from __future__ import annotations

from itertools import zip_longest
from typing import Literal

from orchestrator.report.layout import pad, truncate, wrap
from orchestrator.report.statistics import Comparison, JudgedAnswer
from tasks.escape import escape_control

Only = Literal["all", "changed", "lost", "gained"]
NARROW = 72  # cells; below, the two answers are printed one under the other
NARROWEST = 24
LABEL = 10


def answers_table(comparison: Comparison, width: int, only: Only = "all") -> str:
    """Both answers to each example with question, gold, tokens and verdict, in lines of at most `width` cells.

    `only`: "changed" keeps the examples whose text differs, "lost" those that became wrong, "gained" those that
    became right.  Control characters in the texts are escaped.  A width below 24 counts as 24.
    Raises: ValueError when the sides do not hold the same examples, or for an unknown `only`.
    """
    width = max(width, NARROWEST)
    if only not in ("all", "changed", "lost", "gained"):
        raise ValueError(f"only: {only!r} is not one of all, changed, lost, gained")
    pairs = list(comparison.pairs())
    shown = [(before, after) for before, after in pairs if only == "all" or _matches(before, after, only)]
    lines = wrap(f"{escape_control(comparison.name)}: {len(pairs)} questions, {len(shown)} shown ({only})", width)
    for number, (before, after) in enumerate(shown, start=1):
        lines += ["", *_example(number, len(shown), before, after, width)]
    return "\n".join(line.rstrip() for line in lines)


def _matches(before: JudgedAnswer, after: JudgedAnswer, only: Only) -> bool:
    if only == "changed":
        return before.text != after.text
    right_before = only == "lost"
    return before.is_correct == right_before and after.is_correct != right_before


def _outcome(before: JudgedAnswer, after: JudgedAnswer) -> str:
    if before.is_correct == after.is_correct:
        return "right both times" if after.is_correct else "wrong both times"
    return "GAINED" if after.is_correct else "LOST"


def _example(number: int, count: int, before: JudgedAnswer, after: JudgedAnswer, width: int) -> list[str]:
    title = truncate(f"── {number} of {count} · {_outcome(before, after)} · {escape_control(before.example)} ", width)
    lines = [_rule(title, width)]
    lines += _labelled("question", before.question, width) + _labelled("gold", before.gold, width)
    if width < NARROW:
        for name, graded in (("before", before), ("after", after)):
            lines += _answer(name, graded, width)
        return lines
    half = (width - 3) // 2
    columns = zip_longest(_answer("before", before, half), _answer("after", after, half), fillvalue="")
    return lines + [f"{pad(left, half)} │ {right}" for left, right in columns]


def _rule(title: str, width: int) -> str:
    filled = pad(title, width)
    return title + "─" * (len(filled) - len(title))


def _labelled(label: str, text: str, width: int) -> list[str]:
    first, *rest = wrap(escape_control(text), width - LABEL)
    return [f"{label:<{LABEL}}{first}", *(" " * LABEL + line for line in rest)]


def _answer(name: str, graded: JudgedAnswer, width: int) -> list[str]:
    mark = "right" if graded.is_correct else "WRONG"
    lines = ["", *wrap(f"[{name}] {graded.tokens} tokens, {mark}", width)]
    lines += wrap(escape_control(graded.text, keep_lines=True).strip("\n") or "(no text)", width)
    if graded.reasoning:
        lines += ["  " + line for line in wrap(f"judge: {escape_control(graded.reasoning)}", width - 2)]
    return lines
