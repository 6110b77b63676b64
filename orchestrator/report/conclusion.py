"""What a finished search has shown, in plain sentences: a win only where the figures support one.

The evolved vector is compared with the plain model and with every rival, a system prompt or a vector without search, on
the same questions.  It wins where its answers are shorter than those of the plain model and of each rival that loses
nothing, and where it loses less than the margin itself.  If a system prompt does as well, the first sentence says so.

The comparison with the plain model comes first and has the whole error rate; those with the rivals follow and share it
by Holm's procedure.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Literal

from orchestrator.report.inference import (
    CorrectnessChange,
    NoiseFloor,
    NonInferiority,
    TokenRatio,
    correctness_change,
    holm,
    non_inferiority,
    questions_needed,
    smallest_visible_loss,
    token_ratio,
)

ALPHA = 0.05

Kind = Literal["plain", "prompt", "vector"]
Outcome = Literal["win", "prompt_suffices", "vector_suffices", "not_shown"]


@dataclass(frozen=True)
class Measured:
    """One system on the questions of a set: tokens [n] and verdicts [n], in one order for all systems.

    `kind` says how it is made: "plain" is the unchanged model, "prompt" another system prompt with all deltas zero,
    "vector" deltas.
    """

    name: str
    kind: Kind
    tokens: tuple[int, ...]
    correct: tuple[bool, ...]

    @property
    def mean_tokens(self) -> float:
        return sum(self.tokens) / len(self.tokens)


@dataclass(frozen=True)
class Pairwise:
    """The evolved vector against one system, by pairs.

    Both p values are corrected for the number of rivals: `shorter_p` is small where the vector's answers are shorter,
    `better_p` where they are shorter and lose less than the margin (the larger p of the two tests).
    """

    against: str
    kind: Kind
    ratio: TokenRatio
    change: CorrectnessChange
    non_inferiority: NonInferiority
    shorter_p: float
    better_p: float

    @property
    def is_longer(self) -> bool:
        """Whether this system's answers are shown to be longer than the vector's."""
        return self.shorter_p < ALPHA

    @property
    def is_beaten(self) -> bool:
        """Whether the vector is shown to be shorter than this system and not to lose the margin against it."""
        return self.better_p < ALPHA


@dataclass(frozen=True)
class Conclusion:
    """What was shown.  `sentences` begin with the most important; `pairs` has the plain model first."""

    outcome: Outcome
    sentences: tuple[str, ...]
    pairs: tuple[Pairwise, ...]
    smallest_visible_loss: float

    @property
    def headline(self) -> str:
        return self.sentences[0]


def conclude(
    plain: Measured,
    best: Measured,
    rivals: Sequence[Measured],
    margin: float,
    seed: int,
    noise: NoiseFloor | None = None,
) -> Conclusion:
    """Compare the evolved vector `best` with the plain model and the rivals.

    margin: the loss of correctness that counts as none, as a share (0.03); seed: of the bootstrap; noise: from repeated
    measurements of one system, None where there are none.
    Raises: ValueError when two systems were not measured on the same number of questions.
    """
    [against_plain] = _compare([plain], best, margin, seed)
    pairs = _compare(rivals, best, margin, seed)
    discordant = (against_plain.change.gained + against_plain.change.lost) / against_plain.change.count
    visible = smallest_visible_loss(against_plain.change.count, discordant)
    harmless = [rival for rival in rivals if _loses_nothing(plain, rival, margin)]
    outcome, first = _decide(against_plain, best, pairs, harmless)
    sentences = [first, _against(against_plain), *_about_rivals(plain, best, pairs, harmless)]
    if not against_plain.non_inferiority.is_shown:
        sentences.append(_questions(margin, discordant))
    sentences.append(f"With {against_plain.change.count} questions, a loss under {_points(visible)} may go unseen.")
    if noise is not None:
        sentences.append(_noise(noise, against_plain))
    return Conclusion(outcome, tuple(sentences), (against_plain, *pairs), visible)


def _compare(systems: Sequence[Measured], best: Measured, margin: float, seed: int) -> list[Pairwise]:
    raw = []
    for system in systems:
        ratio = token_ratio(system.tokens, best.tokens, seed)
        change = correctness_change(system.correct, best.correct)
        shown = non_inferiority(change, margin)
        raw.append(Pairwise(system.name, system.kind, ratio, change, shown, ratio.p, max(ratio.p, shown.p)))
    shorter, better = holm([pair.shorter_p for pair in raw]), holm([pair.better_p for pair in raw])
    return [replace(pair, shorter_p=s, better_p=b) for pair, s, b in zip(raw, shorter, better, strict=True)]


def _loses_nothing(plain: Measured, rival: Measured, margin: float) -> bool:
    return non_inferiority(correctness_change(plain.correct, rival.correct), margin).is_shown


def _decide(
    against_plain: Pairwise, best: Measured, pairs: Sequence[Pairwise], harmless: Sequence[Measured]
) -> tuple[Outcome, str]:
    """The outcome and its sentence.  A rival that itself loses the margin or more cannot take a win away."""
    names = {rival.name for rival in harmless}
    standing = [pair for pair in pairs if pair.against in names and not pair.is_longer]
    count = against_plain.change.count
    if standing:
        chosen = min(standing, key=lambda pair: pair.ratio.before)
        rival = next(rival for rival in harmless if rival.name == chosen.against)
        return _not_better_than(rival, best)
    if against_plain.is_beaten:
        return "win", (
            f"The evolved vector shortens the answers by {_percent(1 - against_plain.ratio.ratio.value)} on {count} "
            f"questions and loses less than {_points(against_plain.non_inferiority.margin)} of right answers."
        )
    return "not_shown", f"On {count} questions it is not shown that the evolved vector is better than the plain model."


def _not_better_than(rival: Measured, best: Measured) -> tuple[Outcome, str]:
    figures = f"{rival.mean_tokens:.1f} tokens an answer against {best.mean_tokens:.1f}"
    if rival.kind == "prompt":
        return "prompt_suffices", f'A sentence is enough: the system prompt "{rival.name}" does as well ({figures}).'
    return "vector_suffices", f'A search is not needed: "{rival.name}" does as well ({figures}).'


def _against(pair: Pairwise) -> str:
    ratio, change, test = pair.ratio, pair.change, pair.non_inferiority
    difference = change.difference
    verdict = "excluded" if test.is_shown else "not excluded"
    return (
        f"Against {_name(pair)}: {ratio.before:.1f} -> {ratio.after:.1f} tokens, "
        f"ratio {ratio.ratio.value:.3f} ({ratio.ratio.low:.3f} to {ratio.ratio.high:.3f}); "
        f"{change.before} -> {change.after} of {change.count} right, "
        f"{_signed(difference.value)} points ({_signed(difference.low)} to {_signed(difference.high)}); "
        f"a loss of {_points(test.margin)} is {verdict} (lower bound {_signed(test.bound)})."
    )


def _about_rivals(
    plain: Measured, best: Measured, pairs: Sequence[Pairwise], harmless: Sequence[Measured]
) -> list[str]:
    names = {rival.name for rival in harmless}
    lossy = [pair.against for pair in pairs if pair.against not in names and pair.ratio.before < best.mean_tokens]
    sentences = []
    if pairs:
        beaten = sum(pair.is_beaten for pair in pairs)
        sentences.append(f"It beats {beaten} of {len(pairs)} rivals (p values corrected for their number).")
    if harmless:
        shortest = min(harmless, key=lambda rival: rival.mean_tokens)
        sentences.append(_against(next(pair for pair in pairs if pair.against == shortest.name)))
    if lossy:
        listed = ", ".join(f'"{name}"' for name in lossy)
        verb = "is" if len(lossy) == 1 else "are"
        sentences.append(f"{listed} {verb} shorter still, but not shown to keep as many right as {plain.name}.")
    return sentences


def _questions(margin: float, discordant: float) -> str:
    needed = questions_needed(margin, discordant)
    return f"To show a loss of {_points(margin)}, about {needed:,} questions are needed."


def _noise(noise: NoiseFloor, pair: Pairwise) -> str:
    saved = abs(pair.ratio.before - pair.ratio.after)
    relation = "above" if saved > noise.tokens else "within"
    return (
        f"Two measurements of one vector differ by up to {noise.tokens:.1f} tokens and {_points(noise.correctness)} "
        f"({noise.repeats} repeats); the difference in tokens is {relation} that."
    )


def _name(pair: Pairwise) -> str:
    return "the plain model" if pair.kind == "plain" else f'"{pair.against}"'


def _percent(share: float) -> str:
    return f"{100 * share:.1f} %"


def _points(share: float) -> str:
    value = f"{100 * share:.1f}".removesuffix(".0")
    return f"{value} point" if value == "1" else f"{value} points"


def _signed(share: float) -> str:
    return f"{100 * share:+.1f}"
