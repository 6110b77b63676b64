"""The figures that are read during training without labels; tasks/route/readings.py says what they should be."""

from __future__ import annotations

import torch
from torch import Tensor

from tasks.gpu.routing.band import Band
from tasks.gpu.routing.layout import KnobLayout


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
