"""What a finished run has measured and decided, in one model: `report.json`.

`front.json`, the points of the plot and the text of the closing report are made of it.  The JSON schemas are those of
the types, `TypeAdapter(ReportFile).json_schema()`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, fields
from typing import Any, Literal

from pydantic import FiniteFloat
from rich.cells import cell_len

from orchestrator.evolve.choice import Goal, front, front_of
from orchestrator.evolve.systems import Book, System, SystemKind
from orchestrator.report.format import format_table, truncate, wrap
from orchestrator.report.statistics import Comparison, Measurement, Paired, Point, mean_interval, share_interval
from tasks.common.text import escape_control
from tasks.records import JudgedAnswer

SetName = Literal["training", "ordering", "validation", "test"]
LAST_FIRST: tuple[SetName, ...] = ("test", "validation", "ordering", "training")
"""The sets, that first which is asked last."""
Outcome = Literal["deploy", "use_prompt", "use_cut", "nothing_shown"]
"""deploy: a vector or an evolved system passed, and nothing free does as well on the test questions.  use_prompt: the
winner is a system prompt alone, or one that passed too does as well.  use_cut: a limit of tokens or a stop after the
first sentence does as well.  nothing_shown: the plain model stays."""
Bounds = tuple[FiniteFloat, FiniteFloat]
"""The two ends of an interval at 95 %."""


@dataclass(frozen=True)
class Figures:
    """One system on one set of `n` questions: numbers of answers, but for `mean_tokens` of an answer."""

    n: int
    mean_tokens: FiniteFloat
    mean_tokens_interval: Bounds
    right: int
    whole: int
    correct: int
    correct_interval: Bounds
    loops: int = 0


@dataclass(frozen=True)
class ReportedSystem:
    """A system with its figures on each set, None where it was not asked: see `orchestrator.evolve.systems.System`.

    everyday: on questions of another kind, without golds: none of the answers counts as right.  end: after which tokens
    the first delta, that of the end of a turn, acts; is_on_front: on the training set; passed: a loss of correct
    answers of the margin or more is excluded by the validation set.
    """

    name: str
    kind: SystemKind
    system_prompt: str
    arm: str
    deltas: tuple[FiniteFloat, ...]
    clustering: str
    max_tokens: int
    end: Literal["any", "sentence"]
    training: Figures | None
    ordering: Figures | None
    validation: Figures | None
    test: Figures | None
    everyday: Figures | None
    is_on_front: bool
    passed: bool

    def on(self, which: SetName) -> Figures | None:
        found: Figures | None = getattr(self, which)
        return found


def last_common(*systems: System | ReportedSystem) -> SetName | None:
    """The last set that all of these were asked."""
    return next((which for which in LAST_FIRST if all(getattr(one, which) is not None for one in systems)), None)


@dataclass(frozen=True)
class Conclusion:
    """`sentences` begin with the most important one, `sentence`; the last says what to do.

    measured_on: the set of the winner's figures; paired: the winner against the plain model on it; rival: the name of
    the prompt or cut with the most correct answers to it (where the plain model stays, to the last set of the most
    promising system) that is no longer than the plain model, None without one.
    """

    outcome: Outcome
    sentence: str
    sentences: tuple[str, ...]
    measured_on: SetName
    paired: Paired
    rival: str | None


@dataclass(frozen=True)
class ReportFile:
    """`report.json`.  margin: a share (0.05); cap: the most tokens of an answer; test_uses: as in `Book`."""

    run: str
    goal: Goal
    margin: FiniteFloat
    cap: int
    winner: str
    systems: tuple[ReportedSystem, ...]
    conclusion: Conclusion
    test_uses: int

    def system(self, name: str) -> ReportedSystem:
        return next(one for one in self.systems if one.name == name)


@dataclass(frozen=True)
class FrontFile:
    """`front.json`: the members of the front, those that passed and the winner, the fewest tokens first."""

    winner: str
    members: tuple[ReportedSystem, ...]


def figures_of(found: Measurement, seed: int) -> Figures:
    """`seed` is that of the bootstrap."""
    count, correct = len(found.examples), sum(found.correct)
    tokens, share = mean_interval(found.tokens, seed), share_interval(correct, count)
    return Figures(
        n=count,
        mean_tokens=tokens.value,
        mean_tokens_interval=(tokens.low, tokens.high),
        right=sum(found.right),
        whole=sum(found.whole),
        correct=correct,
        correct_interval=(count * share.low, count * share.high),
        loops=sum(found.loops),
    )


def reported_systems(book: Book, seed: int, *, whole: bool) -> tuple[ReportedSystem, ...]:
    """All systems of a run, finished or not; `seed` is that of the bootstrap."""
    members = {one.name for one in front_of(book)} if book.systems else set()

    def reported(one: System) -> ReportedSystem:
        values: dict[str, Any] = {field.name: getattr(one, field.name) for field in fields(System)}
        values |= {which: values[which] and figures_of(values[which], seed) for which in (*LAST_FIRST, "everyday")}
        values["end"] = "sentence" if whole and one.deltas else "any"
        return ReportedSystem(**values, is_on_front=one.name in members, passed=one.name in book.passed)

    return tuple(map(reported, book.systems))


def front_file(report: ReportFile) -> FrontFile:
    """The members of the front, those that passed, and the winner: the order tests also what is off the front."""
    members = [one for one in report.systems if one.is_on_front or one.passed or one.name == report.winner]
    members.sort(key=lambda one: 0.0 if one.training is None else one.training.mean_tokens)
    return FrontFile(report.winner, tuple(members))


def plot_points(report: ReportFile) -> list[dict[str, Any]]:
    """The systems on the set that put the front in order, which no fitness used where there are enough questions."""
    which: SetName = "ordering" if any(one.ordering for one in report.systems) else "training"
    asked = [(one, found) for one in report.systems if (found := one.on(which)) is not None]
    on_front = front([Point(found.mean_tokens, found.correct / found.n) for _, found in asked])
    return [
        {
            "name": one.name,
            "kind": one.kind,
            "set": which,
            "mean_tokens": found.mean_tokens,
            "mean_tokens_interval": list(found.mean_tokens_interval),
            "correct": found.correct / found.n,
            "correct_interval": [end / found.n for end in found.correct_interval],
            "whole": found.whole / found.n,
            "is_on_front": place in on_front,
            "is_winner": one.name == report.winner,
        }
        for place, (one, found) in enumerate(asked)
    ]


# The closing report as text.

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
    """The final report in lines of `WIDTH` cells; `tables` has by title (label, text), whose paths are not cut."""
    first, *others, last = report.conclusion.sentences
    parts = [
        wrap(first, WIDTH),
        [line for sentence in others for line in _item(sentence)],
        _answers(comparisons, report.winner),
        systems_table(report),
        *([title, *(f"  {line}" for line in format_table(rows))] for title, rows in tables.items()),
        wrap(last, WIDTH),
    ]
    text = "\n\n".join("\n".join(line.rstrip() for line in part) for part in parts if part)
    return escape_control(text, keep_lines=True)


def _item(sentence: str) -> list[str]:
    head, *rest = wrap(sentence, WIDTH - 2)
    return [f"- {head}", *(f"  {line}" for line in rest)]


def _answers(comparisons: Sequence[Comparison], winner: str) -> list[str]:
    """Three validation questions: those in the middle of each third, by the tokens that were saved."""
    found = next((one for one in comparisons if one.name == "validation set"), None)
    if found is None:
        return []
    pairs = sorted(found.pairs(), key=lambda pair: pair[1].tokens - pair[0].tokens)
    chosen = dict.fromkeys((2 * part + 1) * len(pairs) // (2 * SHOWN) for part in range(SHOWN))
    who = f' "{found.system}", which did not pass' if found.system not in ("", winner) else ""
    lines = wrap(f"Answers before and after{who}: three validation questions, by the change in tokens", WIDTH)
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
    """One row a system, the winner and the plain model first: its answers to the last set before test, and to test."""
    shown = sorted(report.systems, key=lambda one: _rank(one, report))[:most]
    cells = [(f"{_mark(one, report)} {one.name}", *_first(one), *_columns(one.test)) for one in shown]
    head = ("  system", "on", *COLUMNS, *COLUMNS)
    longest = max(cell_len(row[0]) for row in cells)
    over = max(cell_len(line) for line in format_table([head, *cells])) - WIDTH
    widest = max(12, longest - max(0, over)) if most == MOST_ROWS else longest  # whole where all are asked for
    rows = [head, *((truncate(row[0], widest), *row[1:]) for row in cells)]
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
