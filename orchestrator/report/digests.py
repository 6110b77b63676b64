"""`orchestrator compare` as text: a row for each figure, a column for each run."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import asdict
from itertools import zip_longest
from typing import Any

from orchestrator.digest import Digest
from orchestrator.report.formatting import (
    format_count,
    format_duration,
    format_evaluations,
    format_money,
    format_points,
    format_score,
    format_signed,
)
from orchestrator.report.layout import format_table, wrap
from orchestrator.report.pairwise import compare, comparison_sentence
from orchestrator.report.statistics import Comparison
from orchestrator.report.systems import MeasuredSystem, Measurement
from orchestrator.results import RunResults
from tasks.escape import escape_control

NONE = "–"
NARROWEST = 16  # cells of a column
SETS = ("test", "validation")
Row = tuple[str, Callable[[Digest], str]]


def digest_lines(digests: Sequence[Digest], width: int) -> list[str]:
    """The conclusions in words, then the table.  Rows without a figure in any run are left out."""
    lines = []
    for digest in digests:
        said = digest.verdict or f"{digest.state}, {digest.progress} done"
        lines += wrap(f"{escape_control(digest.run)}: {escape_control(said)}", width)
    rows = [(name, *(cell(digest) for digest in digests)) for name, cell in ROWS]
    shown = [row for row in rows if any(cell != NONE for cell in row[1:])]
    return [*lines, "", *format_table(_fitted(shown, width))]


def _fitted(rows: Sequence[Sequence[str]], width: int) -> list[Sequence[str]]:
    """The rows with their figures broken into lines, where columns of equal width have no room for them."""
    columns = len(rows[0]) - 1
    room = (width - max(len(row[0]) for row in rows)) // columns - 2
    found: list[Sequence[str]] = []
    for name, *cells in rows:
        broken = [wrap(escape_control(cell), max(room, NARROWEST)) for cell in cells]
        found += zip_longest([name], *broken, fillvalue="")
    return found


def _or_none(value: object, text: Callable[[], str]) -> str:
    return NONE if value is None else text()


def _change(digest: Digest) -> str:
    if digest.token_change is None:
        return NONE
    bounds = digest.token_change_interval
    between = "" if bounds is None else f" ({100 * bounds[0]:+.1f} to {100 * bounds[1]:+.1f})"
    return f"{100 * digest.token_change:+.1f} %{between}"


def _right_change(digest: Digest) -> str:
    if digest.right_change is None:
        return NONE
    bounds = digest.right_change_interval
    between = "" if bounds is None else f" ({format_signed(bounds[0])} to {format_signed(bounds[1])})"
    return f"{format_signed(digest.right_change)} points{between}"


def _rival(digest: Digest) -> str:
    if digest.rival is None:
        return NONE
    figures = f"{digest.rival_tokens:.1f} tokens, {digest.rival_right} of {digest.rival_questions} right"
    return f"{digest.rival}: {figures}"


def _arrow(before: float | None, after: float | None, form: str) -> str:
    return NONE if before is None or after is None else f"{before:{form}} -> {after:{form}}"


ROWS: tuple[Row, ...] = (
    ("run", lambda d: d.run),
    ("kind", lambda d: d.kind),
    ("state", lambda d: f"{d.state}, {d.progress}"),
    ("outcome", lambda d: (d.outcome or NONE).replace("_", " ")),
    ("questions", lambda d: _or_none(d.questions, lambda: f"{d.questions:,} {d.measured_on or 'examples'}")),
    ("tokens an answer", lambda d: _arrow(d.tokens_before, d.tokens_after, ".1f")),
    ("change of tokens", _change),
    ("right answers", lambda d: _arrow(d.right_before, d.right_after, "d")),
    ("change of right answers", _right_change),
    ("winner", lambda d: d.winner or NONE),
    ("rival", _rival),
    ("retained pairs", lambda d: _or_none(d.retained_pairs, lambda: f"{d.retained_pairs:,}")),
    ("wasted tokens", lambda d: _or_none(d.wasted_tokens, lambda: f"{d.wasted_tokens:,}")),
    ("best fitness", lambda d: format_score(d.best_fitness)),
    ("generations", lambda d: _or_none(d.generations, lambda: str(d.generations))),
    ("search evaluations", lambda d: NONE if d.evaluations is None else format_evaluations(d.evaluations)),
    ("search time", lambda d: _or_none(d.seconds, lambda: format_duration(d.seconds))),
    ("generated", lambda d: f"{d.target_tokens:,} tokens"),
    ("calls", lambda d: f"{d.calls:,}, {d.endpoint_tokens:,} tokens"),
    ("cost", lambda d: format_money(d.cost_usd) if d.calls else NONE),
    ("model", lambda d: d.model or NONE),
    ("optimiser", lambda d: d.optimiser or NONE),
    ("seed", lambda d: d.seed or NONE),
    ("folder", lambda d: d.folder),
)


def flat_record(digest: Digest) -> dict[str, Any]:
    """The fields as one record of plain values: an interval is two, `NAME_low` and `NAME_high`."""
    record: dict[str, Any] = {}
    for name, value in asdict(digest).items():
        if name.endswith("_interval"):
            low, high = value or (None, None)
            record |= {f"{name}_low": low, f"{name}_high": high}
        elif name == "evaluations":
            counts = value or {"computed": None, "cached": None, "carried": None}
            record |= {f"{name}_{kind}": count for kind, count in counts.items()}
        else:
            record[name] = value
    return record


def direct_comparison(runs: Sequence[RunResults], width: int) -> list[str]:
    """The second run's winner against the first one's, on the same questions; nothing where there are none.

    The test set is used where both have asked it, else the validation set.
    """
    if len(runs) != 2:
        return []
    first, second = runs
    for which in SETS:
        before, after = _answers(first, which), _answers(second, which)
        if before is None or after is None or first.question_hashes.get(which) != second.question_hashes.get(which):
            continue
        margin = float(second.settings.get("MARGIN") or 0.03)
        winner = MeasuredSystem(f"the winner of {first.run}", "evolved", "")
        pair = compare(winner, _measurement(before), _measurement(after), margin, seed=0)
        count = format_count(pair.change.count, f"{which} questions")
        head = f"The winner of {escape_control(second.run)}, on the same {count}. "
        allowed = f" The margin of {format_points(margin)} is that of {escape_control(second.run)}."
        return ["", *wrap(head + escape_control(comparison_sentence(pair)) + allowed, width)]
    return []


def _answers(run: RunResults, which: str) -> Comparison | None:
    return next((one for one in run.comparisons if one.name.startswith(f"{which} set")), None)


def _measurement(comparison: Comparison) -> Measurement:
    """The winner's answers; their fitness is not compared, since two runs may have two objectives."""
    answers = comparison.after
    return Measurement(
        tuple(answer.example for answer in answers),
        tuple(answer.tokens for answer in answers),
        tuple(answer.is_correct for answer in answers),
        fitness=0.0,
    )
