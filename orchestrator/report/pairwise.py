"""One system against another, by pairs of answers to the same questions."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from orchestrator.report.formatting import format_points, format_signed
from orchestrator.report.inference import (
    LEAST_QUESTIONS,
    CorrectnessChange,
    NonInferiority,
    TokenRatio,
    correctness_change,
    holm,
    non_inferiority,
    token_ratio,
)
from orchestrator.report.statistics import mcnemar
from orchestrator.report.systems import MeasuredSystem, Measurement, SystemKind, pair_up

ALPHA = 0.05


@dataclass(frozen=True)
class Pairwise:
    """One system (`after`) against another (`before`, named by `against` and `kind`), by pairs of answers.

    The p values are one-sided and small where the answers are shorter (`shorter_p`), where more are right
    (`more_right_p`, McNemar's exact test), and where they are shorter and lose less than the margin (`better_p`, the
    larger p of the two tests).  `correct_for_number` corrects them for the number of comparisons.
    """

    against: str
    kind: SystemKind
    ratio: TokenRatio
    change: CorrectnessChange
    non_inferiority: NonInferiority
    shorter_p: float
    more_right_p: float
    better_p: float

    @property
    def name(self) -> str:
        """The other system as text."""
        names = {"plain": "the plain model", "prompt": f'the system prompt "{self.against}"'}
        return names.get(self.kind, f'"{self.against}"')

    @property
    def discordant(self) -> float:
        """The share of answers that changed sides."""
        return (self.change.gained + self.change.lost) / self.change.count

    @property
    def is_shorter(self) -> bool:
        """Whether the answers are shown to be shorter.  An interval that includes no change shows nothing."""
        return self.shorter_p < ALPHA and self.ratio.ratio.high < 1

    @property
    def is_more_right(self) -> bool:
        """Whether more answers are shown to be right."""
        return self.more_right_p < ALPHA and self.change.difference.low > 0

    @property
    def is_better(self) -> bool:
        """Whether the answers are shown to be shorter and to lose less than the margin."""
        return self.better_p < ALPHA and self.ratio.ratio.high < 1

    @property
    def is_worse(self) -> bool:
        """Whether the answers are shown to be longer, or to be right less often without a margin that allows it."""
        if self.change.count < LEAST_QUESTIONS:
            return False
        fewer_right = self.change.difference.high < 0 and not self.non_inferiority.is_shown
        return fewer_right or self.ratio.ratio.low > 1

    @property
    def is_vacuous(self) -> bool:
        """Whether the other system has so few right answers that the margin allows to lose all of them."""
        allowed = self.non_inferiority.margin * self.change.count
        return self.change.before <= allowed + 1e-9 and not self.is_more_right

    @property
    def is_dominated(self) -> bool:
        """Whether the other system has no more tokens and no fewer right answers: its figures alone are as good."""
        return self.ratio.before <= self.ratio.after and self.change.before >= self.change.after


def compare(before: MeasuredSystem, measured: Measurement, after: Measurement, margin: float, seed: int) -> Pairwise:
    """`after` against the system `before`, of which `measured` is the result, on the questions that both were asked.

    The p values are not corrected.
    """
    first, second = pair_up(measured, after)
    ratio = token_ratio(first.tokens, second.tokens, seed)
    change = correctness_change(first.correct, second.correct)
    shown = non_inferiority(change, margin)
    more_right_p = mcnemar(change.gained, change.lost) / 2 if change.gained > change.lost else 1.0
    return Pairwise(before.name, before.kind, ratio, change, shown, ratio.p, more_right_p, max(ratio.p, shown.p))


def correct_for_number(pairs: Sequence[Pairwise]) -> list[Pairwise]:
    """The same comparisons with p values corrected for their number, each kind of p by itself (Holm)."""
    shorter = holm([pair.shorter_p for pair in pairs])
    more_right = holm([pair.more_right_p for pair in pairs])
    better = holm([pair.better_p for pair in pairs])
    return [
        replace(pair, shorter_p=s, more_right_p=m, better_p=b)
        for pair, s, m, b in zip(pairs, shorter, more_right, better, strict=True)
    ]


def comparison_sentence(pair: Pairwise) -> str:
    """All figures of a comparison in one sentence."""
    ratio, change, test = pair.ratio, pair.change, pair.non_inferiority
    difference = change.difference
    loss = f"a loss of {format_points(test.margin)}" if test.margin else "any loss"
    verdict = "excluded" if test.is_shown else "not excluded"
    return (
        f"Against {pair.name}: {ratio.before:.1f} -> {ratio.after:.1f} tokens, "
        f"ratio {ratio.ratio.value:.3f} ({ratio.ratio.low:.3f} to {ratio.ratio.high:.3f}); "
        f"{change.before} -> {change.after} of {change.count} right, "
        f"{format_signed(difference.value)} points ({format_signed(difference.low)} to "
        f"{format_signed(difference.high)}); {loss} is {verdict} "
        f"(lower bound {format_signed(test.bound)})."
    )
