"""What a finished run has shown, in plain sentences: what to deploy, and what else would do.

The winner is shown on the validation set to lose less than the margin of correct answers (Tango's score test, one-sided
95 %).  What it saves is measured on the test set, which nothing was chosen by.  What is free in every engine (a system
prompt, a limit of tokens, a stop after the first sentence) does as well where, on the same questions, it has no more
tokens and at least as many right and whole answers; then it is what to use instead.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from orchestrator.evolve.choice import MemberTest, most_promising
from orchestrator.evolve.front import LONGEST, hypervolume
from orchestrator.evolve.systems import PLAIN, Book, Measurement, Point, System, SystemKind
from orchestrator.report.figures import SetName
from orchestrator.report.formatting import format_points, format_signed
from orchestrator.report.inference import Estimate, correctness_change, non_inferiority
from orchestrator.report.paired import pair, paired_sentence

Outcome = Literal["deploy", "use_prompt", "use_cut", "nothing_shown"]
"""deploy: a vector or an evolved system passed, and nothing free does as well.  use_prompt: the winner is a system
prompt alone, or one does as well.  use_cut: a limit of tokens or a stop after the first sentence does as well.
nothing_shown: the plain model stays."""
RESAMPLES = 1_000
ASKED: tuple[SetName, ...] = ("test", "validation", "ordering")
OF_RIVALS: tuple[tuple[Outcome, SystemKind], ...] = (("use_cut", "cut"), ("use_prompt", "prompt"))


@dataclass(frozen=True)
class Conclusion:
    """`sentences` begin with the most important one; the last says what to do.

    measured_on: the set of the winner's figures; rival: the name of the cheapest rival on it, None without one.
    """

    outcome: Outcome
    sentences: tuple[str, ...]
    measured_on: SetName
    rival: str | None = None


@dataclass(frozen=True)
class Rival:
    """A system that is free in every engine, with its answers and the winner's to the questions of a set."""

    system: System
    own: Measurement
    winners: Measurement
    which: SetName

    @property
    def gain(self) -> float:
        """In correct answers, as a share."""
        return self.own.point.correct - self.winners.point.correct

    @property
    def does_as_well(self) -> bool:
        """No more tokens, and at least as many right and whole answers."""
        one, other = self.own, self.winners
        is_as_right = sum(one.right) >= sum(other.right) and sum(one.whole) >= sum(other.whole)
        return one.mean_tokens <= other.mean_tokens and is_as_right

    @property
    def figures(self) -> str:
        own, winners = (
            f"{one.mean_tokens:.1f} tokens, {sum(one.right)} right and {sum(one.whole)} whole answers"
            for one in (self.own, self.winners)
        )
        return f"{own} to {winners} of {len(self.own.examples)} {self.which} questions"


def conclude(book: Book, margin: float, seed: int, *, whole: bool = True) -> Conclusion:
    """What the systems of a finished run show.

    margin: the loss of correct answers that counts as none, as a share (0.05); seed: of the bootstrap; whole: False
    where all answers count as whole.
    """
    winner, which, rivals = book.system(book.winner), measured_on(book), rivals_of(book)
    if winner.name == PLAIN:
        outcome, first, last = _nothing_shown(book, margin)
    else:
        outcome, first, last = _won(book, winner, rivals, margin)
    notes = _notes(book, winner, which, margin, seed, whole=whole)
    return Conclusion(
        outcome, (first, search_sentence(book, seed), *notes, last), which, rivals[0].system.name if rivals else None
    )


def measured_on(book: Book) -> SetName:
    """The set of the winner's figures."""
    return last_common(book.plain, book.system(book.winner)) or "training"


def last_common(one: System, other: System) -> SetName | None:
    """The last set that both were asked, of those that no fitness used."""
    return next((which for which in ASKED if getattr(one, which) and getattr(other, which)), None)


def rivals_of(book: Book) -> list[Rival]:
    """What is free in every engine, the strongest first.

    These are the most correct answers to the questions of the winner's figures, with no more tokens than the plain
    model has; then the other systems.
    """
    winner = book.system(book.winner)
    found = [
        Rival(one, getattr(one, which), getattr(winner, which), which)
        for one in book.of_kind("prompt", "cut")
        if one is not winner and (which := last_common(one, winner)) is not None
    ]

    def rank(one: Rival) -> tuple[bool, bool, float, float]:
        is_longer = one.own.mean_tokens > book.plain.on(one.which).mean_tokens
        return one.which != measured_on(book), is_longer, -one.gain, one.own.mean_tokens

    return sorted(found, key=rank)


def _won(book: Book, winner: System, rivals: Sequence[Rival], margin: float) -> tuple[Outcome, str, str]:
    """The outcome, the first sentence, and the last."""
    gain = _gain(book, winner, margin)
    for outcome, kind in OF_RIVALS:
        for one in rivals:
            if one.system.kind == kind and one.does_as_well:
                use = _use(one.system)
                first = f"{use}: it does as well as the winner {_name(winner)} ({one.figures}); {gain}."
                return outcome, first, f"{use} instead."
    against = f"; the cheapest rival, {_name(rivals[0].system)}, has {rivals[0].figures}" if rivals else ""
    if winner.kind == "prompt":
        return "use_prompt", f"{_use(winner)}: {gain}{against}.", f"{_use(winner)} instead of a vector."
    return "deploy", f"Deploy {_name(winner)}: {gain}{against}.", f"Deploy {_name(winner)}: deploy/README.md says how."


def _gain(book: Book, winner: System, margin: float) -> str:
    """What the winner saves, and what it loses at most."""
    which = measured_on(book)
    before, after = getattr(book.plain, which), getattr(winner, which)
    share = 1 - after.mean_tokens / max(before.mean_tokens, 1.0)
    saved = f"{100 * abs(share):.0f} % {'fewer' if share >= 0 else 'more'} tokens an answer"
    change = correctness_change(book.plain.on("validation").correct, winner.on("validation").correct)
    bound = non_inferiority(change, margin).bound
    lost = f"a loss of more than {format_points(-bound)} of correct answers is excluded"
    shown = lost if bound < 0 else f"a gain of at least {format_points(bound)} of correct answers is shown"
    seen = " never seen before" if which == "test" else ""
    return (
        f"{saved} ({before.mean_tokens:.1f} -> {after.mean_tokens:.1f}) on "
        f"{len(after.examples)} {which} questions{seen}, and {shown} by {change.count} validation questions "
        f"(the margin is {format_points(margin)})"
    )


def _nothing_shown(book: Book, margin: float) -> tuple[Outcome, str, str]:
    leader = book.leader
    if leader.name == PLAIN:
        first = "The plain model stays: no other system was worth a test against it."
        return (
            "nothing_shown",
            first,
            "Nothing is safe yet: more training questions or other prompts may find something.",
        )
    if leader.validation is None:
        first = f"The plain model stays: there are no validation questions that could show what {_name(leader)} loses."
        return "nothing_shown", first, "Nothing is safe yet: give validation questions."
    before, after = book.plain.on("validation"), leader.validation
    change = correctness_change(before.correct, after.correct)
    test = MemberTest(leader.name, change, non_inferiority(change, margin))
    found = most_promising([test])
    assert found is not None, "the first member did not pass"
    first = (
        f"The plain model stays: on {change.count} validation questions nothing is shown to lose less than "
        f"{format_points(margin)} of correct answers; the most promising system is {_name(leader)} "
        f"({before.mean_tokens:.1f} -> {after.mean_tokens:.1f} tokens, {change.before} -> {change.after} correct), of "
        f"which a loss of up to {format_points(-found.bound)} is not excluded."
    )
    if found.questions is None:
        return "nothing_shown", first, "Nothing is safe yet, and more questions alone would not show what was observed."
    more = max(1, found.questions - change.count)
    return "nothing_shown", first, f"Nothing is safe yet: ask {more:,} more validation questions."


def _notes(book: Book, winner: System, which: SetName, margin: float, seed: int, *, whole: bool) -> Iterator[str]:
    """The figures behind the first sentence, and what a reader must know of them."""
    if winner.name != PLAIN:
        paired = pair(getattr(book.plain, which), getattr(winner, which), margin, seed)
        yield f"On the {which} questions, {paired_sentence(paired, 'the plain model')}"
        before, after = (sum(getattr(one, which).whole) for one in (book.plain, winner))
        yield f"Whole are {after} of its {paired.change.count} answers, and {before} of the plain model's."
    if not whole:
        yield "Every answer counts as whole, also one that is cut (CONFIG_WHOLE=n)."
    if book.flips:
        asked = ordering_of(book)
        count = len(book.plain.on(asked).examples)
        yield f"Of the plain model's {count} {asked} answers {book.flips} changed sides when it was asked once more."
    for one in dict.fromkeys(system.name for system in (book.plain, winner, book.leader)):
        measured = getattr(book.system(one), which)
        if measured is not None and any(measured.loops):
            loops = f"{sum(measured.loops)} of {len(measured.loops)}"
            yield f"{loops} {which} answers of {_name(book.system(one))} repeat themselves up to the limit of tokens."
    if book.rounds > 1:
        yield (
            f"The validation questions have tested members {book.rounds} times, since the run went on after its end: "
            "the 95 % hold for the first time alone."
        )
    if book.test_uses > 1:
        yield f"The test questions have been asked for {book.test_uses} winners so far, this one included."


def ordering_of(book: Book) -> SetName:
    """The set that put the front in order."""
    return "ordering" if book.plain.ordering else "training"


def search_sentence(book: Book, seed: int) -> str:
    """Whether searching added anything to the front of systems without search, beyond as many random vectors."""
    which = ordering_of(book)
    evolved, drawn, others = (
        [found for one in book.of_kind(*kinds) if (found := getattr(one, which)) is not None]
        for kinds in (("evolved",), ("random",), ("plain", "prompt", "vector"))
    )
    count = len(book.plain.on(which).examples)
    if not evolved:
        return "The search added nothing: none of its vectors is on the front."
    gain = _gain_of(evolved, drawn, others, seed)
    figures = (
        f"{format_signed(gain.value)} points of the front's hypervolume ({format_signed(gain.low)} to "
        f"{format_signed(gain.high)}), on {count} {which} questions"
    )
    beyond = "random vectors of the same number" if drawn else "systems without search"
    if gain.low > 0:
        return f"The search added to the front beyond {beyond}: {figures}."
    return f"The search is not shown to have added anything beyond {beyond}: {figures}."


def _gain_of(
    evolved: Sequence[Measurement], drawn: Sequence[Measurement], others: Sequence[Measurement], seed: int
) -> Estimate:
    """Hypervolume with the evolved systems less that with the random ones; a percentile bootstrap over questions."""
    systems = [*others, *evolved, *drawn]
    tokens = np.array([one.tokens for one in systems], dtype=np.float64)  # [s, n]
    correct = np.array([one.correct for one in systems], dtype=np.float64)
    longest = LONGEST * max(float(tokens[0].mean()), 1.0)
    searched = len(others) + len(evolved)

    def gain(chosen: NDArray[np.integer[Any]]) -> float:
        means = zip(tokens[:, chosen].mean(axis=1).tolist(), correct[:, chosen].mean(axis=1).tolist(), strict=True)
        points = [Point(*one) for one in means]
        without = [*points[: len(others)], *points[searched:]]
        return hypervolume(points[:searched], longest) - hypervolume(without, longest)

    rng, count = np.random.default_rng(seed), tokens.shape[1]
    value = gain(np.arange(count))
    resampled = [gain(rng.integers(0, count, size=(count,))) for _ in range(RESAMPLES)]
    low, high = np.quantile(resampled, [0.025, 0.975]).tolist()
    return Estimate(value, min(value, low), max(value, high))


def _use(one: System) -> str:
    """What to do in place of a vector."""
    if one.kind == "cut":
        return f"Set max_tokens to {one.max_tokens}" if one.max_tokens else "Stop after the first sentence"
    return f"Use the system prompt {_name(one)}"


def _name(one: System) -> str:
    return "the plain model" if one.name == PLAIN else f'"{one.name}"'
