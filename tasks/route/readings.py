"""What the figures of a routed training should be, and what a deviation means: no label is needed to read them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Diagnostic:
    """`fine` judges the figures of one record; it is not asked where one of them is missing (None)."""

    expected: str
    deviation: str
    figures: tuple[str, ...]
    fine: Callable[..., bool]


DIAGNOSTICS: Mapping[str, Diagnostic] = {
    "hkgap": Diagnostic(
        "at least a quarter of its first value",
        "the direction has collapsed; the one from before routing is put back",
        ("hkgap", "first_hkgap"),
        lambda gap, first: gap >= 0.25 * first,
    ),
    "separation": Diagnostic(
        "leave-one-out, above that of permuted pairs",
        "the band has learned the pairs by heart and says nothing of others",
        ("separation", "separation_permuted"),
        lambda found, permuted: found > max(permuted, 0),
    ),
    "overlap": Diagnostic(
        "cosine with the previous direction at least 0.2",
        "the direction changed between two refreshes; refresh more often",
        ("overlap_previous",),
        lambda overlap: overlap >= 0.2,
    ),
    "overlap_quarantine": Diagnostic(
        "cosine with the direction taken with quarantine on at least 0.2",
        "the rollouts come from a model in which the direction is another",
        ("overlap_quarantine",),
        lambda overlap: overlap >= 0.2,
    ),
    "calibration": Diagnostic(
        "p10 of live x below the middle of the band, p90 above it",
        "all rows get about the same share: the gate does not tell them apart",
        ("x_p10", "x_p90", "lower", "upper"),
        lambda low, high, lower, upper: low < (lower + upper) / 2 < high,
    ),
    "shares": Diagnostic(
        "mean f above 0 and below 1, with some rows near 0 and some near 1",
        "the gate routes nothing, everything, or the same share of every row",
        ("f_mean", "f_at_0", "f_at_1"),
        lambda mean, none, all_: 0 < mean < 1 and none > 0 and all_ > 0,
    ),
    "resid": Diagnostic(
        "cosine of the kept gradient with the direction below the whole gradient's, and at most the mean lower edge",
        "hack-ward gradient leaks into deltaS",
        ("resid", "whole_cosine", "lower"),
        lambda kept, whole, lower: kept < whole and kept <= max(lower, 0),
    ),
    "length": Diagnostic(
        "x hardly correlates with the length of a row, r from -0.5 to 0.5",
        "the direction tells long completions from short ones",
        ("x_length",),
        lambda r: abs(r) < 0.5,
    ),
    "surprise": Diagnostic(
        "x hardly correlates with surprise, r from -0.5 to 0.5",
        "the direction tells odd completions from fluent ones; compare with the placebo",
        ("x_surprise",),
        lambda r: abs(r) < 0.5,
    ),
    "not_finite": Diagnostic(
        "no row of the step with a gradient that is NaN or infinite",
        "a kernel or a number of the model is at fault; such rows train nothing, and many of them end the training",
        ("not_finite",),
        lambda count: count == 0,
    ),
    "null": Diagnostic(
        "p90 of live x above that of random directions",
        "live gradients do not point along the direction more than along any",
        ("x_p90", "null_p90"),
        lambda x, null: x > null,
    ),
}


def readings(record: Mapping[str, Any]) -> list[tuple[str, str, bool]]:
    """(name, the figures and what they should be, fine) of each diagnostic whose figures the record has."""
    found: list[tuple[str, str, bool]] = []
    for name, diagnostic in DIAGNOSTICS.items():
        figures = [record.get(figure) for figure in diagnostic.figures]
        if any(figure is None for figure in figures):
            continue
        fine = bool(diagnostic.fine(*figures))
        given = ", ".join(f"{key} {value:.3f}" for key, value in zip(diagnostic.figures, figures, strict=True))
        wrong = "" if fine else f"; else {diagnostic.deviation}"
        found.append((name, f"{given}: should be {diagnostic.expected}{wrong}", fine))
    return found
