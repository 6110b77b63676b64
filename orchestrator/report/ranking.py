"""The table of all measured systems in the final report, best first."""

from __future__ import annotations

import math

from rich.cells import cell_len

from orchestrator.report.assessment import Assessment
from orchestrator.report.layout import format_table, truncate, wrap
from orchestrator.report.pairwise import Pairwise
from orchestrator.report.systems import MeasuredSystem, Measurement

NONE = "–"
SHORTEST_NAME = 8


def ranking(assessment: Assessment, width: int = 80) -> list[str]:
    """One row for each system by its fitness on the validation set.

    The last column is the change of the mean tokens against the plain model with its 95 % interval, on the set that the
    conclusion is from.  Long names are cut so that lines have at most `width` cells.
    """
    with_test = any(system.test is not None for system in assessment.systems)
    systems = _order(assessment)
    rows = [_head(with_test), *(_row(system, assessment, with_test) for system in systems)]
    longest = max(cell_len(row[0]) for row in rows)
    over = max(cell_len(line) for line in format_table(rows)) - (width - 2)
    name_width = max(SHORTEST_NAME, longest - max(0, over))
    table = format_table([(truncate(row[0], name_width), *row[1:]) for row in rows])
    marks = ["  ", *("* " if system is assessment.winner else "  " for system in systems)]
    return [*wrap(_title(assessment, with_test), width), *(a + b for a, b in zip(marks, table, strict=True))]


def _title(assessment: Assessment, with_test: bool) -> str:
    plain = assessment.plain
    counts = [f"{len(plain.validation.examples)} validation" if plain.validation is not None else ""]
    counts.append(f"{len(plain.test.examples)} test" if with_test and plain.test is not None else "")
    counted = " and ".join(count for count in counts if count)
    return (
        f"All systems on {counted} questions, the highest fitness on validation first. * is the winner. "
        f"The change is that of the mean tokens of the {assessment.conclusion.measured_on} set against the plain model."
    )


def _head(with_test: bool) -> tuple[str, ...]:
    test = (" test", "right") if with_test else ()
    return ("name", "kind", "valid.", "right", *test, "change of tokens")


def _order(assessment: Assessment) -> list[MeasuredSystem]:
    """By fitness on the validation set, the highest first; then those without one."""

    def key(system: MeasuredSystem) -> float:
        fitness = math.nan if system.validation is None else system.validation.fitness
        return -fitness if math.isfinite(fitness) else math.inf

    return sorted(assessment.systems, key=key)


def _row(system: MeasuredSystem, assessment: Assessment, with_test: bool) -> tuple[str, ...]:
    return (
        system.name,
        system.kind,
        *_cells(system.validation, assessment.plain.validation),
        *(_cells(system.test, assessment.plain.test) if with_test else ()),
        _change(assessment.over_plain.get(system.name)),
    )


def _cells(measured: Measurement | None, plain: Measurement | None) -> tuple[str, str]:
    """Mean tokens and right answers, of how many where the plain model was asked another number."""
    if measured is None:
        return NONE, NONE
    count = len(measured.examples)
    is_complete = plain is not None and count == len(plain.examples)
    return f"{measured.mean_tokens:6.1f}", f"{measured.right:5d}" if is_complete else f"{measured.right:2d}/{count}"


def _change(pair: Pairwise | None) -> str:
    if pair is None:
        return NONE
    value, low, high = (100 * (x - 1) for x in (pair.ratio.ratio.value, pair.ratio.ratio.low, pair.ratio.ratio.high))
    return f"{value:+3.0f} % ({low:+.0f} to {high:+.0f})"


def provenance(assessment: Assessment, width: int = 80) -> list[str]:
    """What the search started from, and how often the test set has been asked."""
    sentences = [f'The search started from the system prompt "{assessment.start}".']
    if _has_higher_vectors(assessment):
        sentences.append(
            f'What it started from, "{assessment.winner.name}", won: '
            "some vectors have a higher fitness on validation, and none was shown to be better."
        )
    if assessment.test_uses:
        winners = "1 winner" if assessment.test_uses == 1 else f"{assessment.test_uses} winners"
        sentences.append(f"The test set has been asked for {winners} so far, this one included.")
    return wrap(" ".join(sentences), width)


def _has_higher_vectors(assessment: Assessment) -> bool:
    """Whether the start has won, although a vector has a higher fitness on the validation set."""
    winner, systems = assessment.winner, assessment.systems
    if winner.kind == "evolved" or winner.validation is None:
        return False
    vectors = (system.validation for system in systems if system.kind in ("vector", "evolved"))
    return any(one is not None and one.fitness > winner.validation.fitness for one in vectors)
