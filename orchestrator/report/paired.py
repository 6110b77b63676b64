"""One system against another, by pairs of answers to the same questions."""

from __future__ import annotations

from dataclasses import dataclass

from orchestrator.evolve.systems import Measurement
from orchestrator.report.formatting import format_points, format_signed
from orchestrator.report.inference import (
    CorrectnessChange,
    NonInferiority,
    TokenRatio,
    correctness_change,
    non_inferiority,
    token_ratio,
)


@dataclass(frozen=True)
class Paired:
    """The ratio of tokens, the change of correct answers, and whether a loss of the margin or more is excluded."""

    ratio: TokenRatio
    change: CorrectnessChange
    loss: NonInferiority


def pair(before: Measurement, after: Measurement, margin: float, seed: int) -> Paired:
    """`after` against `before`, on the questions that both were asked; margin: a share; seed: of the bootstrap."""
    asked = set(after.examples)
    common = [example for example in before.examples if example in asked]
    first, second = _by_example(before), _by_example(after)
    change = correctness_change([first[one][1] for one in common], [second[one][1] for one in common])
    ratio = token_ratio([first[one][0] for one in common], [second[one][0] for one in common], seed)
    return Paired(ratio, change, non_inferiority(change, margin))


def _by_example(found: Measurement) -> dict[str, tuple[int, bool]]:
    return dict(zip(found.examples, zip(found.tokens, found.correct, strict=True), strict=True))


def paired_sentence(paired: Paired, against: str) -> str:
    """All figures of a comparison in one sentence; `against` names the other system."""
    ratio, change, loss = paired.ratio, paired.change, paired.loss
    difference = change.difference
    excluded = "excluded" if loss.is_shown else "not excluded"
    return (
        f"against {against}: {ratio.before:.1f} -> {ratio.after:.1f} tokens, "
        f"ratio {ratio.ratio.value:.3f} ({ratio.ratio.low:.3f} to {ratio.ratio.high:.3f}); "
        f"{change.before} -> {change.after} of {change.count} correct, "
        f"{format_signed(difference.value)} points ({format_signed(difference.low)} to "
        f"{format_signed(difference.high)}); a loss of {format_points(loss.margin)} is {excluded} "
        f"(lower bound {format_signed(loss.bound)})."
    )
