"""What a report concludes: deployed is what was shown, and only where nothing free does as well."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import replace

import pytest
from measured_book import EVOLVED, MARGIN, ONE_SENTENCE, book, measured, report, system

from orchestrator.evolve.choice import additions, least_correct
from orchestrator.evolve.systems import PLAIN, Book, System, SystemKind
from orchestrator.report.conclusion import added_by_search, conclude
from orchestrator.report.statistics import Measurement, correctness_change, non_inferiority, questions_needed

ADVICE = {
    "deploy": "Deploy ",
    "use_prompt": "Use the system prompt ",
    "use_cut": ("Set max_tokens to ", "Stop after the first sentence "),
    "nothing_shown": "Nothing is safe yet",
}
"""How the last sentence begins, by outcome."""


def outcome(made: Book) -> tuple[str, str, str]:
    """With the first and the last sentence, which is the advice of that outcome."""
    found = conclude(made, MARGIN, seed=7)
    assert [one for one, advice in ADVICE.items() if found.sentences[-1].startswith(advice)] == [found.outcome]
    return found.outcome, found.sentences[0], found.sentences[-1]


def test_what_passed_is_deployed_with_what_it_saves_and_loses_at_most() -> None:
    made = book(system(EVOLVED, "evolved", 0.4, "tr or va te", ONE_SENTENCE, lost=1))
    found, first, last = outcome(made)
    plain, winner = made.plain, made.system(EVOLVED)
    change = correctness_change(plain.on("validation").correct, winner.on("validation").correct)
    bound = -100 * non_inferiority(change, MARGIN).bound
    assert found == "deploy" and first.startswith(f'Deploy "{EVOLVED}": 60 % fewer tokens')
    assert f"{plain.on('test').mean_tokens:.1f} -> {winner.on('test').mean_tokens:.1f}" in first
    assert f"more than {bound:.1f} points" in first and "300 validation questions" in first
    assert '"first sentence", has' in first and "45 right and 100 whole" in first and EVOLVED in last


@pytest.mark.parametrize(
    ("factor", "answers", "expected"),
    [
        (0.39, {}, "use_cut"),  # no more tokens, as many right and whole
        (0.41, {}, "deploy"),  # more tokens
        (0.39, {"lost": 1}, "deploy"),  # fewer right
        (0.39, {"cut": 1}, "deploy"),  # fewer whole
    ],
)
def test_a_limit_of_tokens_is_enough_only_where_it_has_as_many_right_and_whole(
    factor: float, answers: dict[str, int], expected: str
) -> None:
    cut = replace(system("max_tokens 22", "cut", factor, "va te", **answers), max_tokens=22)
    found, first, last = outcome(book(cut))
    # the figures are of the system that is named, and deploy/ holds it also where something else is free
    assert found == expected and EVOLVED in first and EVOLVED in last and "export" not in last
    # and what can be exported is named with the command
    stop = replace(cut, name="first sentence", deltas=(1000.0, 0.0, 0.0, 0.0, 0.0), max_tokens=0)
    found, _, last = outcome(book(stop))
    exported = "orchestrator export RUN --system 'first sentence' --to sglang-server"
    assert (found, exported in last) == (expected, expected == "use_cut")


def test_a_free_rival_needs_as_many_answers_that_are_right_and_whole_at_once() -> None:
    winner = system(EVOLVED, "evolved", 0.4, "tr or va te", ONE_SENTENCE, cut=40)  # of ten 6 are right, 6 whole
    cut = replace(winner.on("test"), tokens=(1,) * 100, whole=tuple(not i % 10 < 4 for i in range(100)))
    rival = replace(system("max_tokens 22", "cut", 0.3, "te"), test=cut)
    assert (sum(cut.right), sum(cut.whole), sum(cut.correct)) == (60, 60, 20)
    assert outcome(book(winner, rival))[0] == "deploy"
    as_correct = replace(cut, whole=winner.on("test").whole)
    assert outcome(book(winner, replace(rival, test=as_correct)))[0] == "use_cut"


def test_a_prompt_alone_is_recommended_where_it_won_and_where_one_that_passed_does_as_well() -> None:
    prompt = system(ONE_SENTENCE, "prompt", 0.35, "tr or va te", ONE_SENTENCE)
    assert outcome(book(prompt, winner=ONE_SENTENCE, passed=(ONE_SENTENCE,)))[0] == "use_prompt"
    found, first, last = outcome(book(prompt, passed=(EVOLVED, ONE_SENTENCE)))
    assert found == "use_prompt" and EVOLVED in first and EVOLVED in last and ONE_SENTENCE in last


@pytest.mark.parametrize("sets", ["tr or", "tr or va", "tr or va te"])
def test_a_prompt_that_did_not_pass_is_never_recommended(sets: str) -> None:
    better = system(ONE_SENTENCE, "prompt", 0.3, sets, ONE_SENTENCE)
    found, first, _ = outcome(book(better))
    assert found == "deploy" and (f'"{ONE_SENTENCE}" (it was not tested), has' in first) == ("te" in sets)


def test_where_nothing_passed_the_most_promising_is_named_and_how_many_questions_would_decide() -> None:
    searched = system(EVOLVED, "evolved", 0.4, "tr or va", ONE_SENTENCE, lost=3, loops=2)
    made = replace(book(searched, winner=PLAIN, passed=()), flips=4, rounds=2)
    conclusion = conclude(made, MARGIN, seed=7)
    assert conclusion.outcome == "nothing_shown" and "180 -> 171" in conclusion.sentences[0]
    # All of them new: those that have tested a member would count twice
    change = correctness_change(made.plain.on("validation").correct, searched.on("validation").correct)
    distance, discordant = MARGIN + change.difference.value, (change.gained + change.lost) / change.count
    needed = questions_needed(distance, discordant)
    assert needed > 300 and f"ask {needed:,} new validation questions" in conclusion.sentences[-1]
    said = " ".join(conclusion.sentences)
    assert "100 ordering answers 4 changed sides" in said and "have tested members 2 times" in said
    # and no number of questions shows a loss that is as large as the margin
    lossy = replace(searched, validation=measured(0.4, lost=20))
    assert "would not show" in outcome(book(lossy, winner=PLAIN, passed=()))[2]
    assert outcome(replace(made, order=()))[0] == "nothing_shown"
    # and where it is not even shorter, the goal is not reached however many are asked
    longer = book(replace(searched, validation=measured(1.1, lost=3)), winner=PLAIN, passed=())
    assert "new validation questions" not in outcome(longer)[2]
    assert "new validation questions" in conclude(longer, MARGIN, 7, "most_right").sentences[-1]


def test_what_the_winner_does_to_questions_of_another_kind_is_said() -> None:
    made = report(book()).conclusion.sentences
    plain = Measurement(("1", "2", "3"), (10, 10, 10), (False,) * 3, (True,) * 3, (False,) * 3)
    winner = replace(plain, tokens=(0, 11, 40), whole=(True, True, False))
    asked = [replace(one, everyday={PLAIN: plain, EVOLVED: winner}.get(one.name)) for one in book().systems]
    [said] = {*report(book(*asked)).conclusion.sentences} - {*made}
    assert "has 17.0 tokens (the plain model: 10.0)" in said
    assert "longer answers: 2, empty: 1, not whole: 1 (of the plain model: 0)" in said
    # A run that went on may have another winner than the one that was asked
    stays = report(book(*asked, winner=PLAIN, passed=())).conclusion.sentences
    assert not any("everyday" in one for one in stays)


def test_loops_are_counted_and_the_search_is_compared_with_random_vectors() -> None:
    looping = system(EVOLVED, "evolved", 0.4, "tr or va te", ONE_SENTENCE, loops=3)
    sentences = report(book(looping)).conclusion.sentences
    assert any(one.startswith("3 of 100 test answers") for one in sentences)
    assert sentences[1].startswith("The search added to the front")
    # given random vectors that are as good
    drawn = replace(system("random 1", "random", 0.4, "tr", ONE_SENTENCE), ordering=looping.ordering)
    assert sentences[1] != (second := report(book(looping, drawn)).conclusion.sentences[1])
    assert "not shown to have added anything" in second
    # What the search itself has used shows nothing, and without random vectors there is nothing to compare with
    assert "is not known" in conclude(book(looping), MARGIN, seed=7, whole=False).sentences[1]
    fitted = [replace(one, ordering=None) for one in book(looping).systems]
    assert "is not known" in report(book(*fitted)).conclusion.sentences[1]


KNOWN = ((1.0, 0.5), (0.85, 0.5), (0.7, 0.48), (0.6, 0.45), (0.5, 0.42), (0.4, 0.38))
USELESS = ((1.0, 0.45), (0.95, 0.42), (1.05, 0.4))
BETTER = tuple((factor, correct + 0.3) for factor, correct in KNOWN)
"""Systems by their share of the plain model's tokens, and their share of correct answers."""


def searched(seed: int, evolved: Sequence[tuple[float, float]], drawn: Sequence[tuple[float, float]]) -> Book:
    """A run in which evolved and random vectors of these true figures were found; 40 questions of each set."""
    rng = random.Random(seed)
    lengths = [rng.lognormvariate(4.2, 0.5) for _ in range(80)]

    def answered(factor: float, correct: float, lengths: Sequence[float]) -> Measurement:
        tokens = tuple(max(1, round(factor * one * rng.lognormvariate(0, 0.3))) for one in lengths)
        right = tuple(rng.random() < correct for _ in lengths)
        return Measurement(tuple(map(str, range(40))), tokens, right, (True,) * 40, (False,) * 40)

    def asked(name: str, kind: SystemKind, truth: tuple[float, float]) -> System:
        sets = {"training": answered(*truth, lengths[:40]), "ordering": answered(*truth, lengths[40:])}
        return System(name, kind, "", **sets)

    known = [asked(PLAIN, "plain", KNOWN[0]), *(asked(f"vector {truth}", "vector", truth) for truth in KNOWN[1:])]
    points = [one.on("training").point for one in known]
    kept = list[System]()
    for kind, truths in (("evolved", evolved), ("random", drawn)):
        found = [asked(f"{kind} {index}", kind, truth) for index, truth in enumerate(truths)]
        chosen = additions([one.on("training").point for one in found], points, 4, least_correct(known[0]))
        kept += [found[index] for index in chosen]
    return Book(systems=(*known, *kept))


@pytest.mark.parametrize("drawn", [USELESS, KNOWN])
def test_a_search_that_only_repeats_what_needs_no_search_is_hardly_ever_said_to_add(
    drawn: Sequence[tuple[float, float]],
) -> None:
    gains = [added_by_search(searched(seed, KNOWN[1:] * 10, drawn * 10), seed)[0] for seed in range(20)]
    assert sum(gain.low > 0 for gain in gains) <= 3  # 5 % of 20 are 1


def test_a_search_that_finds_what_is_better_is_said_to_add() -> None:
    gains = [added_by_search(searched(seed, BETTER, USELESS), seed) for seed in range(10)]
    assert sum(gain.low > 0 and alone > 0 for gain, alone in gains) >= 8
