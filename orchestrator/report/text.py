"""The final report of a run as text: what was shown, answers before and after, the systems, the resources."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from rich.cells import cell_len

from orchestrator.console import format_count
from orchestrator.report.format import format_duration, format_evaluations, format_table, truncate, wrap
from orchestrator.report.model import LAST_FIRST, Figures, ReportedSystem, ReportFile, last_common
from orchestrator.report.statistics import Comparison, JudgedAnswer
from tasks.common.text import escape_control
from tasks.plan import Evaluations

WIDTH = 100
MOST_ROWS = 12
ANSWER_LINES = 4
SHOWN = 3
"""Questions whose answers are shown."""
NONE = "–"
COLUMNS = ("tokens", "right", "whole", "correct")


@dataclass(frozen=True)
class FinalReport:
    """What the closing report says beside `report.json`.  `files` and `commands` are (label, text).

    `reflector` and `judge` name what answered: a model, or "rules of the embedded endpoint".  `seconds` are those of
    the generations: what is measured before and after the search is in `evaluations` only.  `usage` has the counters of
    the store; its "target" tokens were generated, the others billed by the endpoint.  `first_cap` is the most tokens of
    an answer that the settings ask for; `changes`: settings that changed, from which generation, and their names.
    """

    report: ReportFile
    comparisons: tuple[Comparison, ...]
    generations: int
    seconds: float
    evaluations: Evaluations
    usage: Mapping[str, float]
    cost: str
    reflector: str
    judge: str
    skipped_mutations: int = 0
    merge_fallbacks: int = 0
    first_cap: int = 0
    changes: tuple[tuple[int, str], ...] = ()
    files: tuple[tuple[str, str], ...] = ()
    commands: tuple[tuple[str, str], ...] = ()


def final_report(report: FinalReport) -> str:
    """The final report in lines of at most `WIDTH` cells; long paths are not cut, so that they can be copied."""
    first, *others, last = report.report.conclusion.sentences
    done = f"{format_count(report.generations, 'generations')}, search time {format_duration(report.seconds)}"
    parts = [
        wrap(first, WIDTH),
        [line for sentence in others for line in _item(sentence)],
        _answers(report.comparisons),
        systems_table(report.report),
        [f"Run {report.report.run}: {done}", *_usage(report)],
        _pairs("Files", report.files),
        _pairs("Next", report.commands),
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
    state = f"{'right' if answer.is_right else 'wrong'}{'' if answer.is_whole else ', cut'}"
    lines = wrap(escape_control(" ".join(answer.text.split())), WIDTH - 4)
    if len(lines) > ANSWER_LINES:
        lines = [*lines[: ANSWER_LINES - 1], truncate(lines[ANSWER_LINES - 1] + " …", WIDTH - 4)]
    yield f"  - {side}, {answer.tokens} tokens, {state}:"
    yield from (f"    {line}" for line in lines)


def systems_table(report: ReportFile, most: int = MOST_ROWS) -> list[str]:
    """One row a system, the winner and the plain model first: its answers to the validation and to the test set.

    Where it was not asked the validation set, the first columns are of the set that put the front in order, or else of
    the training set.  At most `most` rows.
    """
    shown = _ordered(report)[:most]
    cells = [(f"{_mark(one, report)} {one.name}", *_first(one), *_columns(one.test)) for one in shown]
    head = ("  system", "on", *COLUMNS, *COLUMNS)
    longest = max(cell_len(row[0]) for row in cells)
    over = max(cell_len(line) for line in format_table([head, *cells])) - WIDTH
    rows = [head, *((truncate(row[0], max(12, longest - max(0, over))), *row[1:]) for row in cells)]
    counts = {one: next((f.n for s in report.systems if (f := s.on(one))), 0) for one in LAST_FIRST}
    asked = ", ".join(f"{count} {name}" for name, count in counts.items() if count)
    left = len(report.systems) - len(shown)
    title = f"Systems (* the winner, + passed): answers to the questions named, then to the test set. Asked: {asked}"
    more = f"  and {left} more: `orchestrator compare RUN --all`" if left else ""
    return [*wrap(title, WIDTH), *format_table(rows), *([more] if more else [])]


def _ordered(report: ReportFile) -> list[ReportedSystem]:
    """The winner, the plain model, what was asked the validation or the test set, then the front, then the others."""

    def rank(one: ReportedSystem) -> tuple[bool, bool, int, float, float]:
        which = last_common(one)
        found = one.on(which) if which else None
        figures = (0.0, 0.0) if found is None else (-found.correct / found.n, found.mean_tokens)
        place = len(LAST_FIRST) if which is None else max(1, LAST_FIRST.index(which))  # the last two sets together
        return one.name != report.winner, one.kind != "plain", place, *figures

    return sorted(report.systems, key=rank)


def _mark(one: ReportedSystem, report: ReportFile) -> str:
    return "*" if one.name == report.winner else "+" if one.passed else " "


def _first(one: ReportedSystem) -> tuple[str, ...]:
    for which in LAST_FIRST[1:]:
        if (found := one.on(which)) is not None:
            return which, *_columns(found)
    return NONE, *_columns(None)


def _columns(found: Figures | None) -> tuple[str, ...]:
    if found is None:
        return (NONE,) * len(COLUMNS)
    return f"{found.mean_tokens:6.1f}", f"{found.right:5d}", f"{found.whole:5d}", f"{found.correct:7d}"


def _usage(report: FinalReport) -> list[str]:
    target, calls, prompt, cached, completion = (
        int(report.usage.get(name, 0)) for name in ("target", "requests", "prompt", "cached", "completion")
    )
    rows = [
        ("reflected", report.reflector),
        ("judged", report.judge),
        ("evaluations", format_evaluations(report.evaluations)),
        ("generated", f"{target:,} tokens"),
        ("calls", f"{calls:,}, {prompt:,} tokens in ({cached:,} cached), {completion:,} out"),
        ("cost", report.cost),
    ]
    if report.skipped_mutations or report.merge_fallbacks:
        rows.append(("unusable", unusable_replies(report.skipped_mutations, report.merge_fallbacks)))
    if 0 < report.first_cap < report.report.cap:
        doubled = f"doubled from {report.first_cap:,} to {report.report.cap:,} tokens"
        rows.append(("limit", f"{doubled}: too many of the plain model's answers reached it"))
    rows += [("changed", f"{names}, from generation {generation} on") for generation, names in report.changes]
    return [f"  {line}" for line in format_table(rows)]


def unusable_replies(skipped_mutations: int, merge_fallbacks: int) -> str:
    """What was done without the reflector, because none of its replies could be used."""
    mutations = "1 mutation" if skipped_mutations == 1 else f"{skipped_mutations} mutations"
    merges = "1 merge" if merge_fallbacks == 1 else f"{merge_fallbacks} merges"
    parts = [f"{mutations} skipped"] if skipped_mutations else []
    parts += [f"{merges} kept the first parent's scratchpad"] if merge_fallbacks else []
    return ", ".join(parts) + ": no reply of the reflector was usable"


def _pairs(title: str, rows: tuple[tuple[str, str], ...]) -> list[str]:
    return [title, *(f"  {line}" for line in format_table(rows))] if rows else []
