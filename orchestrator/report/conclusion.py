"""What a finished run has shown, in plain sentences: what to deploy, and what else would do.

The winner is shown on the validation set to lose less than the margin of correct answers (Tango's score test, one-sided
95 %).  What it saves is measured on the test set, by which no system was chosen.  A cut, or a system prompt that passed
too, does as well where, on the same test questions, it has no more tokens and at least as many right, whole and correct
answers.  A system prompt that did not pass is never recommended, whatever its figures.
"""

from __future__ import annotations

import operator
import shlex
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from orchestrator.evolve.choice import Goal, area_of_steps, front_of, longest_of, questions_to_show
from orchestrator.evolve.systems import PLAIN, Book, System, SystemKind
from orchestrator.report.format import format_points, format_signed
from orchestrator.report.model import Conclusion, Outcome, ReportFile, SetName, last_common, reported_systems
from orchestrator.report.statistics import (
    Estimate,
    Measurement,
    Paired,
    pair,
    paired_sentence,
    percentile_interval,
    resampled_counts,
)

RESAMPLES = 1_000


@dataclass(frozen=True)
class Rival:
    """A cut or a system prompt, which need no vector, with its answers and the winner's to the same questions."""

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
        """No more tokens, and at least as many right, whole and correct answers, on the test questions."""
        one, other = self.own, self.winners
        pairs = ((one.right, other.right), (one.whole, other.whole), (one.correct, other.correct))
        is_shorter = self.which == "test" and one.mean_tokens <= other.mean_tokens
        return is_shorter and all(sum(own) >= sum(theirs) for own, theirs in pairs)

    @property
    def figures(self) -> str:
        own, winners = (
            f"{one.mean_tokens:.1f} tokens, {sum(one.right)} right and {sum(one.whole)} whole answers"
            for one in (self.own, self.winners)
        )
        return f"{own} to {winners} of {len(self.own.examples)} {self.which} questions"


def report_of(run: str, book: Book, goal: Goal, margin: float, seed: int, *, whole: bool = True) -> ReportFile:
    """All figures and the conclusion; the arguments are those of `conclude`."""
    return ReportFile(
        run=run,
        goal=goal,
        margin=margin,
        cap=book.cap,
        winner=book.winner,
        systems=reported_systems(book, seed, whole=whole),
        conclusion=conclude(book, margin, seed, goal, whole=whole),
        test_uses=book.test_uses,
    )


def conclude(book: Book, margin: float, seed: int, goal: Goal = "shortest", *, whole: bool = True) -> Conclusion:
    """`margin`: the share of correct answers whose loss counts as none; not `whole`: all answers count as whole."""
    winner, rivals = book.system(book.winner), rivals_of(book)
    which = last_common(book.plain, winner) or "training"  # the set of the winner's figures
    outcome, first, last = _nothing_shown(book, goal) if winner.name == PLAIN else _won(book, winner, which, rivals)
    paired = pair(book.plain.on(which), winner.on(which), margin, seed)
    notes = _notes(book, winner, which, paired, whole=whole)
    return Conclusion(
        outcome=outcome,
        sentence=first,
        sentences=(first, search_sentence(book, seed, whole=whole), *notes, last),
        measured_on=which,
        paired=paired,
        rival=rivals[0].system.name if rivals else None,
    )


def rivals_of(book: Book) -> list[Rival]:
    """Cuts and prompts on the contender's last set, first the most correct that is no longer than the plain model."""
    winner, which = book.system(book.winner), last_common(book.contender)
    if which in (None, "training"):
        return []
    asked = [one for one in book.of_kind("prompt", "cut") if one is not winner and getattr(one, which) is not None]
    longest = book.plain.on(which).mean_tokens
    found = [Rival(one, one.on(which), winner.on(which), which) for one in asked]
    return sorted(found, key=lambda one: (one.own.mean_tokens > longest, -one.gain, one.own.mean_tokens))


def _won(book: Book, winner: System, which: SetName, rivals: Sequence[Rival]) -> tuple[Outcome, str, str]:
    """The outcome, the first sentence, and the last, which says what to do."""
    free = [one for one in rivals if one.does_as_well and (one.system.kind == "cut" or one.system.name in book.passed)]
    free.sort(key=lambda one: one.system.kind)  # cuts first: they change nothing that is asked
    chosen = free[0].system if free else winner
    outcome, use = _use(chosen)
    head, last = use, f"{use}: deploy/README.md says how."
    if chosen is not winner:
        head = f"{_name(winner)} passed"
        last = f"{use} instead: that does as well on the test questions as {_name(winner)}, which deploy/ holds."
        if not chosen.max_tokens:  # which each request sets
            last += f" `orchestrator export RUN --system {shlex.quote(chosen.name)} --to sglang-server` writes it."
    first = f"{head}: {_gain(book, winner, which)}"
    for one in dict.fromkeys([*rivals[:1], *free[:1]]):
        rank = "the strongest rival" if one is rivals[0] else "a rival"
        tested = one.system.name in {test.name for test in book.tests}
        unproven = " (it did not pass)" if tested else " (it was not tested)"
        failed = "" if one.system.kind == "cut" or one.system.name in book.passed else unproven
        first += f"; {rank}, {_name(one.system)}{failed}, {'does as well:' if one in free else 'has'} {one.figures}"
    return outcome, f"{first}.", last


def _use(one: System) -> tuple[Outcome, str]:
    if one.kind == "prompt":
        return "use_prompt", f"Use the system prompt {_name(one)}"
    if one.kind == "cut":
        return "use_cut", f"Set max_tokens to {one.max_tokens}" if one.max_tokens else "Stop after the first sentence"
    return "deploy", f"Deploy {_name(one)}"


def _gain(book: Book, winner: System, which: SetName) -> str:
    """What the winner saves, and what it loses at most."""
    before, after = book.plain.on(which), winner.on(which)
    share = 1 - after.mean_tokens / max(before.mean_tokens, 1.0)
    saved = f"{100 * abs(share):.0f} % {'fewer' if share >= 0 else 'more'} tokens an answer"
    test = next(one for one in book.tests if one.name == winner.name)
    bound = test.result.bound
    lost = f"a loss of more than {format_points(-bound)} of correct answers is excluded"
    shown = lost if bound < 0 else f"a gain of at least {format_points(bound)} of correct answers is shown"
    seen = " never seen before" if which == "test" and book.test_uses <= 1 else ""
    return (
        f"{saved} ({before.mean_tokens:.1f} -> {after.mean_tokens:.1f}) on "
        f"{len(after.examples)} {which} questions{seen}, and {shown} by {test.change.count} validation questions "
        f"(the margin is {format_points(test.result.margin)})"
    )


def _nothing_shown(book: Book, goal: Goal) -> tuple[Outcome, str, str]:
    contender, advice = book.contender, ": more training questions or other prompts may find something"
    if contender.name == PLAIN:
        shown = "no other system was worth a test against it."
    elif not book.tests or contender.validation is None:
        shown = f"there are no validation questions that could show what {_name(contender)} loses."
        advice = ": give validation questions"
    else:
        change, test = book.tests[0].change, book.tests[0].result
        before, after = book.plain.on("validation").mean_tokens, contender.validation.mean_tokens
        first = f"the most promising system is {_name(contender)} ({before:.1f} -> {after:.1f} tokens, "
        first += f"{change.before} -> {change.after} correct)"
        if goal == "shortest" and after >= before:
            shown = f"nothing tested was shorter: {first} on {change.count} validation questions."
        else:
            shown = (
                f"on {change.count} validation questions nothing is shown to lose less than "
                f"{format_points(test.margin)} of correct answers; {first}, of which a loss of up to "
                f"{format_points(-test.bound)} is not excluded."
            )
            needed = questions_to_show(book.tests[0])
            # Those that have been asked would count twice: the 95 % hold for questions that have tested nothing.
            more = "and more questions alone would not show what was observed"
            advice = f", {more}" if needed is None else f": ask {needed:,} new validation questions"
    return "nothing_shown", f"The plain model stays: {shown}", f"Nothing is safe yet{advice}."


def _notes(book: Book, winner: System, which: SetName, paired: Paired, *, whole: bool) -> Iterator[str]:
    """The figures behind the first sentence, and what a reader must know of them."""
    if winner.name != PLAIN:
        yield f"On the {which} questions, {paired_sentence(paired, 'the plain model')}"
        before, after = (sum(getattr(one, which).whole) for one in (book.plain, winner))
        yield f"Whole are {after} of its {paired.change.count} answers, and {before} of the plain model's."
    if not any(book.plain.on("training").right):
        yield "The judge calls none of the plain model's training answers right: check it with `orchestrator judge`."
    if not whole:
        yield "Every answer counts as whole, also one that is cut (CONFIG_WHOLE=n)."
    if book.flips:
        asked = book.ordering_set
        count = len(book.plain.on(asked).examples)
        yield f"Of the plain model's {count} {asked} answers {book.flips} changed sides when it was asked once more."
    yield from _at_cap(book)
    measured = getattr(book.contender, which)
    if book.contender.name != PLAIN and measured is not None and any(measured.loops):
        loops = f"{sum(measured.loops)} of {len(measured.loops)}"
        yield f"{loops} {which} answers of {_name(book.contender)} repeat themselves up to the limit of tokens."
    yield from _elsewhere(book.plain, winner)
    if book.rounds > 1:
        yield (
            f"The validation questions have tested members {book.rounds} times, since the run went on after its end: "
            "the 95 % hold for the first time alone."
        )
    if book.test_uses > 1:
        yield f"Some of the test questions have measured {book.test_uses} choices so far, this one included."


def _elsewhere(plain: System, winner: System) -> Iterator[str]:
    """What the winner does to questions of another kind."""
    if winner.name == PLAIN or plain.everyday is None or winner.everyday is None:
        return
    before, after = plain.everyday, winner.everyday
    longer, cut = sum(map(operator.gt, after.tokens, before.tokens)), after.whole.count(False)
    yield (
        f"On {len(after.tokens)} everyday questions of another kind {_name(winner)} has {after.mean_tokens:.1f} tokens "
        f"(the plain model: {before.mean_tokens:.1f}); longer answers: {longer}, empty: {after.tokens.count(0)}, "
        f"not whole: {cut} (of the plain model: {before.whole.count(False)}). "
        "Use it only for requests like your own questions."
    )


def _at_cap(book: Book) -> Iterator[str]:
    """How many of the plain model's answers the limit of tokens cuts: whatever is shorter gains by them."""
    asked = [(which, found) for which in ("validation", "test") if (found := getattr(book.plain, which)) is not None]
    cut = [sum(tokens >= book.cap for tokens in found.tokens) for _, found in asked]
    if any(cut):
        parts = (
            f"{count} of {len(found.tokens)} {which} answers ({sum(found.loops)} repeat themselves)"
            for count, (which, found) in zip(cut, asked, strict=True)
        )
        yield f"Of the plain model {' and '.join(parts)} reach the limit of {book.cap} tokens."


def search_sentence(book: Book, seed: int, *, whole: bool = True) -> str:
    """Whether searching added anything to the front of systems without search, beyond as many random vectors."""
    which = book.ordering_set
    if not any(getattr(one, which) is not None for one in book.of_kind("evolved")):
        return "The search added nothing: none of its vectors is on the front."
    if which == "training":
        return "Whether the search added anything is not known: no questions are left that the search has not used."
    if not whole:
        return "Whether the search added anything is not known: there are no random vectors (CONFIG_WHOLE=n)."
    gain, alone = added_by_search(book, seed)
    figures = (
        f"{format_signed(gain.value)} points of the front's hypervolume ({format_signed(gain.low)} to "
        f"{format_signed(gain.high)}), and {format_signed(alone)} beyond what needs no search, on "
        f"{len(book.plain.on(which).examples)} {which} questions"
    )
    added = "added to the front" if gain.low > 0 else "is not shown to have added anything"
    return f"The search {added} beyond random vectors of the same number: {figures}."


def added_by_search(book: Book, seed: int) -> tuple[Estimate, float]:
    """The area of the front with the evolved systems less that with the random ones, and less that with neither.

    Each front is chosen by the training questions and measured by the ordering questions, so that neither gains by the
    luck of its members.  The interval is a percentile bootstrap over questions.
    """
    plain = book.plain.on("ordering")
    longest, count = longest_of(plain), len(plain.examples)
    weights = np.vstack([np.ones((1, count)), resampled_counts(count, seed, RESAMPLES)]) / count
    asked = replace(book, systems=tuple(book.having("ordering")))

    def areas(*kinds: SystemKind) -> NDArray[np.float64]:
        """As measured, then in each resample."""
        members = [one.on("ordering") for one in front_of(asked, "plain", "prompt", "vector", *kinds)]
        tokens, correct = (
            np.array(values, dtype=np.float64).T
            for values in ([one.tokens for one in members], [one.correct for one in members])
        )
        return area_of_steps(weights @ tokens, weights @ correct, longest)

    evolved, drawn, known = areas("evolved"), areas("random"), areas()
    gain = evolved - drawn
    return percentile_interval(float(gain[0]), gain[1:]), float(evolved[0] - known[0])


def _name(one: System) -> str:
    return "the plain model" if one.name == PLAIN else f'"{one.name}"'
