"""The final report of a run as text: what was shown, answers before and after, the systems, the resources."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from rich.cells import cell_len

from orchestrator.report.format import format_table, truncate, wrap
from orchestrator.report.model import LAST_FIRST, Figures, ReportedSystem, ReportFile, last_common
from orchestrator.report.statistics import Comparison, JudgedAnswer
from tasks.common.text import escape_control

WIDTH = 100
MOST_ROWS = 12
ANSWER_LINES = 4
SHOWN = 3
"""Questions whose answers are shown."""
NONE = "–"
COLUMNS = ("tokens", "right", "whole", "correct")


def final_report(
    report: ReportFile, comparisons: Sequence[Comparison], tables: Mapping[str, Sequence[tuple[str, str]]]
) -> str:
    """The final report in lines of at most `WIDTH` cells; long paths are not cut, so that they can be copied.

    tables: by title, what the run took, its files and what to do next, as (label, text).
    """
    first, *others, last = report.conclusion.sentences
    parts = [
        wrap(first, WIDTH),
        [line for sentence in others for line in _item(sentence)],
        _answers(comparisons),
        systems_table(report),
        *([title, *(f"  {line}" for line in format_table(rows))] for title, rows in tables.items()),
        wrap(last, WIDTH),
    ]
    text = "\n\n".join("\n".join(line.rstrip() for line in part) for part in parts if part)
    return escape_control(text, keep_lines=True)


def _item(sentence: str) -> list[str]:
    head, *rest = wrap(sentence, WIDTH - 2)
    return [f"- {head}", *(f"  {line}" for line in rest)]


def _answers(comparisons: Sequence[Comparison]) -> list[str]:
    """Three validation questions: those in the middle of each third, by the tokens that were saved."""
    found = next((one for one in comparisons if one.name == "validation set"), None)
    if found is None:
        return []
    pairs = sorted(found.pairs(), key=lambda pair: pair[1].tokens - pair[0].tokens)
    chosen = dict.fromkeys((2 * part + 1) * len(pairs) // (2 * SHOWN) for part in range(SHOWN))
    lines = ["Answers before and after: three validation questions, of which many, some and few tokens were saved"]
    for before, after in (pairs[index] for index in chosen):
        lines.append(f"  {truncate(escape_control(before.question), WIDTH - 2)}")
        lines += [*_answer("before", before), *_answer("after", after)]
    return lines


def _answer(side: str, answer: JudgedAnswer) -> Iterator[str]:
    lines = wrap(escape_control(" ".join(answer.text.split())), WIDTH - 4)
    if len(lines) > ANSWER_LINES:
        lines = [*lines[: ANSWER_LINES - 1], truncate(lines[ANSWER_LINES - 1] + " …", WIDTH - 4)]
    yield f"  - {side}, {answer.tokens} tokens, {answer.state}:"
    yield from (f"    {line}" for line in lines)


def systems_table(report: ReportFile, most: int = MOST_ROWS) -> list[str]:
    """One row a system, the winner and the plain model first: its answers to the validation and to the test set.

    Where it was not asked the validation set, the first columns are of the set that put the front in order, or else of
    the training set.  At most `most` rows.
    """
    shown = sorted(report.systems, key=lambda one: _rank(one, report))[:most]
    cells = [(f"{_mark(one, report)} {one.name}", *_first(one), *_columns(one.test)) for one in shown]
    head = ("  system", "on", *COLUMNS, *COLUMNS)
    longest = max(cell_len(row[0]) for row in cells)
    over = max(cell_len(line) for line in format_table([head, *cells])) - WIDTH
    rows = [head, *((truncate(row[0], max(12, longest - max(0, over))), *row[1:]) for row in cells)]
    counts = {one: next((f.n for s in report.systems if (f := s.on(one))), 0) for one in LAST_FIRST}
    asked = ", ".join(f"{count} {name}" for name, count in counts.items() if count)
    title = f"Systems (* the winner, + passed): answers to the questions named, then to the test set. Asked: {asked}"
    left = len(report.systems) - len(shown)
    more = [f"  and {left} more: `orchestrator compare RUN --all`"] if left else []
    return [*wrap(title, WIDTH), *format_table(rows), *more]


def _rank(one: ReportedSystem, report: ReportFile) -> tuple[bool, bool, int, float, float]:
    """The winner, the plain model, what was asked the validation or the test set, then the front, then the others."""
    which = last_common(one)
    found = one.on(which) if which else None
    figures = (0.0, 0.0) if found is None else (-found.correct / found.n, found.mean_tokens)
    place = len(LAST_FIRST) if which is None else max(1, LAST_FIRST.index(which))  # the last two sets together
    return one.name != report.winner, one.kind != "plain", place, *figures


def _mark(one: ReportedSystem, report: ReportFile) -> str:
    return "*" if one.name == report.winner else "+" if one.passed else " "


def _first(one: ReportedSystem) -> tuple[str, ...]:
    which = next((which for which in LAST_FIRST[1:] if one.on(which)), None)
    return (which or NONE), *_columns(which and one.on(which))


def _columns(found: Figures | None) -> tuple[str, ...]:
    if found is None:
        return (NONE,) * len(COLUMNS)
    return f"{found.mean_tokens:6.1f}", f"{found.right:5d}", f"{found.whole:5d}", f"{found.correct:7d}"
