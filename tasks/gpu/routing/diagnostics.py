"""What is read during training without labels: each figure with what it should be and what a deviation means."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from tasks.gpu.routing.band import Band
from tasks.gpu.routing.layout import KnobLayout


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
        "x hardly correlates with the length of a row, |r| below 0.5",
        "the direction tells long completions from short ones",
        ("x_length",),
        lambda r: abs(r) < 0.5,
    ),
    "surprise": Diagnostic(
        "x hardly correlates with surprise, |r| below 0.5",
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


def live_figures(
    x: Tensor, shares: Tensor, live: Tensor, teacher: Tensor, lengths: Tensor, surprise: Tensor
) -> dict[str, float | None]:
    """Of x and f [G, M] of one step's live rows: percentiles, mean and mass at 0 and 1, correlations.

    x of a row is its mean over the modules that have a gradient; f is counted for each row and module, of student rows
    and, as `teacher_f_mean`, of teacher rows [G].
    """
    if not live.any():
        return {}
    count = live.sum(1)
    rows = count > 0
    mean = ((x * live).sum(1) / count.clamp(min=1))[rows]
    student = shares[~teacher][live[~teacher]]
    taught = shares[teacher][live[teacher]]
    low, middle, high = torch.quantile(mean, torch.tensor([0.1, 0.5, 0.9], device=mean.device)).tolist()
    return {
        **{"x_p10": low, "x_p50": middle, "x_p90": high},
        **{"f_mean": _mean(student), "f_at_0": _mean(student == 0), "f_at_1": _mean(student == 1)},
        "teacher_f_mean": _mean(taught),
        "x_length": correlation(mean, lengths[rows]),
        "x_surprise": correlation(mean, surprise[rows]),
    }


def band_figures(band: Band) -> dict[str, float]:
    """Mean edges over the open modules (over all, where none is open), and how many are open."""
    opened = band.open()
    among = opened if bool(opened.any()) else torch.ones_like(opened)
    return {
        "lower": float(band.lower[among].mean()),
        "upper": float(band.upper[among].mean()),
        "open_modules": int(opened.sum()),
        "closed_modules": int((~opened).sum()),
    }


def mean_cosine(layout: KnobLayout, one: Tensor, other: Tensor) -> float:
    """The mean over modules of the cosine of two flat vectors; a module where one is 0 counts as 0."""
    return float(layout.sums(layout.units(one) * layout.units(other)).mean())


def correlation(one: Tensor, other: Tensor) -> float | None:
    """Pearson's, or None where one of both does not vary."""
    first, second = one.float() - one.float().mean(), other.float() - other.float().mean()
    scale = float(first.norm() * second.norm())
    return float((first * second).sum()) / scale if scale > 1e-9 else None


def _mean(values: Tensor) -> float | None:
    return float(values.float().mean()) if len(values) else None
