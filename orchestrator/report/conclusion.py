"""What a finished search has shown, in plain sentences: a win only where the figures support one.

The evolved vector is compared with the plain model and with every rival, a system prompt or a vector without search, on
the same questions.  It wins where it is shown to be shorter than the plain model and to lose less than the margin, and
where each rival is shown to be worse: longer, or right less often.  If a system prompt does as well, the first sentence
says so.  If the vector is worse than the plain model, it says that.

The winner may be no evolved vector but what the search started from: a rival or the plain model itself.  Then the
sentences name it as the winner, and say that no evolved vector was shown to be better.

The comparison with the plain model comes first and has the whole error rate; those with the rivals follow and share it
by Holm's procedure.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from orchestrator.report.formatting import format_percent, format_points
from orchestrator.report.inference import NoiseFloor, questions_needed, smallest_visible_loss
from orchestrator.report.pairwise import Pairwise, compare, comparison_sentence, correct_for_number
from orchestrator.report.systems import MeasuredSystem, SetName

NOT_BETTER = "no evolved vector was shown to be better on the validation set"

Outcome = Literal["win", "prompt_suffices", "vector_suffices", "not_shown", "worse"]


@dataclass(frozen=True)
class Conclusion:
    """What was shown.  `sentences` begin with the most important; `pairs` has the plain model first.

    `measured_on` is the set of questions that the figures come from.  `rival` is the name of the one that the first
    sentence is about; None where it is about the winner and the plain model alone.
    """

    outcome: Outcome
    measured_on: SetName
    sentences: tuple[str, ...]
    pairs: tuple[Pairwise, ...]
    smallest_visible_loss: float
    rival: str | None = None

    @property
    def headline(self) -> str:
        return self.sentences[0]


def conclude(
    plain: MeasuredSystem,
    best: MeasuredSystem,
    rivals: Sequence[MeasuredSystem],
    margin: float,
    seed: int,
    noise: NoiseFloor | None = None,
) -> Conclusion:
    """Compare the winner, `best`, with the plain model and the rivals, one of which it may be itself.

    The test set is used if `plain` and `best` were asked it, else the validation set.  Rivals that were not measured on
    that set are left out, and so is what is the same as the winner.

    margin: the loss of correctness that counts as none, as a share (0.03); seed: of the bootstrap; noise: from repeated
    measurements of one system, None where there are none.
    """
    used: SetName = "test" if plain.test and best.test else "validation"
    plain_measured, best_measured = plain.measured_on(used), best.measured_on(used)
    assert plain_measured is not None and best_measured is not None, "both are always measured on the validation set"
    others = [rival for rival in rivals if not _is_same(rival, best)]
    measured = [(rival, result) for rival in others if (result := rival.measured_on(used)) is not None]
    against_plain = compare(plain, plain_measured, best_measured, margin, seed)
    pairs = correct_for_number([compare(rival, result, best_measured, margin, seed) for rival, result in measured])
    over_plain = [compare(plain, plain_measured, result, margin, seed) for _, result in measured]
    informative = [(pair, change) for pair, change in zip(pairs, over_plain, strict=True) if not change.is_vacuous]
    harmless = [pair for pair, change in informative if change.non_inferiority.is_shown]
    useful = [pair for pair, change in informative if change.is_better]
    start = next((one for one in (plain, *rivals) if _is_same(one, best)), None)
    # A rival that has won is not counted among those that it is compared with, but may be as good as any of them.
    itself = [compare(start, best_measured, best_measured, margin, seed)] if start not in (None, plain) else []
    all_useful = [*useful, *itself] if against_plain.is_better else useful
    outcome, first, decisive = _decide(against_plain, [*pairs, *itself], harmless, all_useful, used, start)
    sentences = [first]
    if start is not None and NOT_BETTER not in first:
        sentences.append(f"The winner is {_title(start)}: {NOT_BETTER}.")
    if outcome == "worse" and useful:
        sentences.append(_recommend(min(useful, key=lambda pair: pair.ratio.before)))
    sentences += [comparison_sentence(against_plain), *_about_rivals(pairs, harmless)]
    if used == "validation":
        sentences.append("The vector was chosen by these same questions, which makes its figures look better.")
    sentences += _limits(against_plain, margin)
    if noise is not None:
        sentences.append(_noise(noise, against_plain))
    visible = smallest_visible_loss(against_plain.change.count, against_plain.discordant)
    rival = None if decisive is None else decisive.against
    return Conclusion(outcome, used, tuple(sentences), (against_plain, *pairs), visible, rival)


def _is_same(one: MeasuredSystem, other: MeasuredSystem) -> bool:
    """Whether the two have the same prompt and deltas; none are the same as zeros."""
    if not any(one.deltas) and not any(other.deltas):
        return one.system_prompt == other.system_prompt
    return (one.system_prompt, one.deltas) == (other.system_prompt, other.deltas)


def _title(start: MeasuredSystem) -> str:
    """What a search started from, as text: `"end of turn alone" (raised by 11)`."""
    if start.kind == "plain":
        return "the plain model"
    raised = [delta for delta in start.deltas if delta]
    by = f" (raised by {raised[0]:g})" if len(raised) == 1 and raised[0] > 0 else ""
    return f'the system prompt "{start.name}"' if start.kind == "prompt" else f'"{start.name}"{by}'


def _decide(
    against_plain: Pairwise,
    pairs: Sequence[Pairwise],
    harmless: Sequence[Pairwise],
    useful: Sequence[Pairwise],
    used: SetName,
    start: MeasuredSystem | None,
) -> tuple[Outcome, str, Pairwise | None]:
    """The outcome, its sentence, and the comparison with the rival that the sentence is about.

    pairs: the winner against each rival, itself among them where it is one; harmless: those of rivals that are shown to
    lose less than the margin against the plain model; useful: those of rivals that are shown to be shorter as well;
    start: the winner, where it is what the search started from.
    """
    winner = "the evolved vector" if start is None else "the winner"
    count = against_plain.change.count
    dominating = [pair for pair in pairs if pair.is_dominated]
    equal = [pair for pair in useful if not pair.is_shorter and not pair.is_more_right] or dominating
    if against_plain.is_worse:
        return "worse", f"{winner.capitalize()} is worse than the plain model: {_figures(against_plain, used)}.", None
    margin = against_plain.non_inferiority.margin
    if against_plain.is_vacuous:
        before = f"The plain model has {against_plain.change.before} of {count} right on the {used} set"
        return "not_shown", f"{before}, no more than the margin of {format_points(margin)}: nothing is shown.", None
    if equal:
        is_proved = against_plain.is_better or any(pair in useful for pair in equal)
        pair = min(equal, key=lambda pair: pair.ratio.before)
        if start is not None and pair.against == start.name:
            said, rival = _won_without_search(start, _figures(against_plain, used), is_proved=is_proved), None
        else:
            said, rival = _not_better_than(pair, used, winner, is_proved=is_proved), pair
        return *said, rival
    not_better = f"It is not shown that {winner} is better than"
    if not against_plain.is_better:
        return "not_shown", f"{not_better} the plain model: {_figures(against_plain, used)}.", None
    rest = [pair for pair in pairs if not _is_worse_rival(pair, is_harmless=pair in harmless)]
    if rest:
        pair = min(rest, key=lambda pair: pair.ratio.before)
        return "not_shown", f"{not_better} {pair.name}: {_figures(pair, used)}.", pair
    loss = f"less than {format_points(margin)} of" if margin else "no"
    win = f"{winner.capitalize()} shortens the answers by {format_percent(1 - against_plain.ratio.ratio.value)}"
    return "win", f"{win} on {count} {used} questions and loses {loss} right answers.", None


def _is_worse_rival(pair: Pairwise, *, is_harmless: bool) -> bool:
    """Whether the vector is shown to be shorter than the rival, or to be right more often.

    Against a rival that loses nothing, more right answers must not be bought with more tokens.
    """
    return pair.is_shorter or (pair.is_more_right and (not is_harmless or pair.ratio.after <= pair.ratio.before))


def _not_better_than(pair: Pairwise, used: SetName, winner: str, *, is_proved: bool) -> tuple[Outcome, str]:
    """The sentence where a rival is as good; `is_proved`: one of the two is shown to be better than the plain model."""
    figures = _figures(pair, used)
    if not is_proved:
        subject = "A sentence" if pair.kind == "prompt" else "A vector without search"
        return "not_shown", (
            f"{subject}, {pair.name}, does as well as {winner} ({figures}). "
            f"It is not shown that {winner} is better than the plain model."
        )
    if pair.kind == "prompt":
        return "prompt_suffices", f"A sentence is enough: {pair.name} does as well as {winner} ({figures})."
    return "vector_suffices", f"A search is not needed: {pair.name} does as well as {winner} ({figures})."


def _won_without_search(start: MeasuredSystem, figures: str, *, is_proved: bool) -> tuple[Outcome, str]:
    """The sentence where a rival itself has won; `figures`: its own, from those of the plain model."""
    won = f"{_title(start)} won: {NOT_BETTER}"
    if not is_proved:
        return "not_shown", f"{won[0].upper()}{won[1:]}. Nor is it shown to be better than the plain model: {figures}."
    if start.kind == "prompt":
        return "prompt_suffices", f"A sentence is enough: {won} (against the plain model {figures})."
    return "vector_suffices", f"A search is not needed: {won} (against the plain model {figures})."


def _recommend(pair: Pairwise) -> str:
    subject = "The system prompt" if pair.kind == "prompt" else "The vector without search"
    return (
        f'{subject} "{pair.against}" is better than the plain model: {pair.ratio.before:.1f} tokens, '
        f"{pair.change.before} of {pair.change.count} right."
    )


def _figures(pair: Pairwise, used: SetName) -> str:
    """`64.3 -> 37.8 tokens, 11 -> 7 of 16 right on the test set`: from the other system to the vector."""
    return (
        f"{pair.ratio.before:.1f} -> {pair.ratio.after:.1f} tokens, "
        f"{pair.change.before} -> {pair.change.after} of {pair.change.count} right on the {used} set"
    )


def _about_rivals(pairs: Sequence[Pairwise], harmless: Sequence[Pairwise]) -> list[str]:
    lossy = [pair for pair in pairs if pair not in harmless and pair.ratio.before < pair.ratio.after]
    sentences = []
    if pairs:
        beaten = sum(pair.is_better for pair in pairs)
        sentences.append(f"It beats {beaten} of {len(pairs)} rivals (p values corrected for their number).")
    if harmless:
        sentences.append(comparison_sentence(min(harmless, key=lambda pair: pair.ratio.before)))
    if lossy:
        listed = ", ".join(f'"{pair.against}"' for pair in lossy)
        verb = "is" if len(lossy) == 1 else "are"
        sentences.append(f"{listed} {verb} shorter still, but not shown to keep as many right as the plain model.")
    return sentences


def _limits(pair: Pairwise, margin: float) -> list[str]:
    """What this number of questions cannot show."""
    sentences = []
    if not margin:
        sentences.append("With a margin of 0 a win needs more right answers than the plain model has.")
    elif not pair.non_inferiority.is_shown:
        needed = questions_needed(margin, pair.discordant)
        sentences.append(f"To show a loss of {format_points(margin)}, about {needed:,} questions are needed.")
    visible = smallest_visible_loss(pair.change.count, pair.discordant)
    number = "1 question" if pair.change.count == 1 else f"{pair.change.count} questions"
    if not pair.non_inferiority.is_shown:
        sentences.append(f"With {number}, a true loss under {format_points(visible)} may go unseen.")
    return sentences


def _noise(noise: NoiseFloor, pair: Pairwise) -> str:
    saved = abs(pair.ratio.before - pair.ratio.after)
    relation = "above" if saved > noise.tokens else "within"
    return (
        f"Two measurements of one vector differ by up to {noise.tokens:.1f} tokens and "
        f"{format_points(noise.correctness)} ({noise.repeats} measurements); the difference in tokens is {relation} "
        "that."
    )
