"""The final report of a run as text: what was shown, answers before and after, the systems, the resources."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from rich.cells import cell_len

from orchestrator.report.figures import LAST_FIRST, Figures, ReportedSystem, ReportFile, last_common
from orchestrator.report.formatting import format_cost, format_count, format_duration, format_evaluations
from orchestrator.report.layout import format_table, truncate, wrap
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
class ResourceUsage:
    """Resources that a run used. `target_tokens` were generated; the other tokens were billed by the endpoint.

    `seconds` are those of the generations: what is measured before and after the search is in `evaluations` only.
    `unconfirmed_usd` is the most that calls with an unknown outcome may have cost.  `skipped_mutations` and
    `merge_fallbacks` count what no reply of the reflector could be used for.
    """

    seconds: float
    evaluations: Evaluations
    calls: int
    target_tokens: int
    prompt_tokens: int
    cached_tokens: int
    completion_tokens: int
    cost_usd: float | None  # None: unknown
    budget_usd: float = 0.0
    unconfirmed_usd: float = 0.0
    skipped_mutations: int = 0
    merge_fallbacks: int = 0


@dataclass(frozen=True)
class FinalReport:
    """The contents of the final report.  `files` and `commands` are (label, text).

    `reflector` and `judge` name what answered: a model, or "rules of the embedded endpoint".  `first_cap` is the most
    tokens of an answer that the settings ask for.
    """

    run: str
    generations: int
    report: ReportFile
    comparisons: tuple[Comparison, ...]
    reflector: str
    judge: str
    usage: ResourceUsage
    first_cap: int = 0
    changes: tuple[tuple[int, str], ...] = ()  # settings that changed: from which generation, and their names
    files: tuple[tuple[str, str], ...] = ()
    commands: tuple[tuple[str, str], ...] = ()


def final_report(report: FinalReport) -> str:
    """The final report in lines of at most `WIDTH` cells; long paths are not cut, so that they can be copied."""
    first, *others, last = report.report.conclusion.sentences
    done = f"{format_count(report.generations, 'generations')}, search time {format_duration(report.usage.seconds)}"
    parts = [
        wrap(first, WIDTH),
        [line for sentence in others for line in _item(sentence)],
        _answers(report.comparisons),
        systems_table(report.report),
        [f"Run {report.run}: {done}", *_usage(report)],
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
    usage = report.usage
    prompt = f"{usage.prompt_tokens:,} tokens in ({usage.cached_tokens:,} cached)"
    rows = [
        ("reflected", report.reflector),
        ("judged", report.judge),
        ("evaluations", format_evaluations(usage.evaluations)),
        ("generated", f"{usage.target_tokens:,} tokens"),
        ("calls", f"{usage.calls:,}, {prompt}, {usage.completion_tokens:,} out"),
        ("cost", format_cost(usage.cost_usd, usage.budget_usd, usage.unconfirmed_usd)),
    ]
    if usage.skipped_mutations or usage.merge_fallbacks:
        rows.append(("unusable", unusable_replies(usage.skipped_mutations, usage.merge_fallbacks)))
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
