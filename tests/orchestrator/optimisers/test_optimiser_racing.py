"""Who goes on in a race, on simulated answers whose truth is known."""

from __future__ import annotations

import random
from collections.abc import Mapping

import pytest

from orchestrator.optimisers.racing import (
    Partial,
    Race,
    front_survivors,
    make_race,
    projected,
    surely_better,
    survivors,
)
from tasks.models import Constrained
from tasks.objective import additive_fitness_of

COUNT = 100
OBJECTIVE = Constrained(baseline_tokens=100.0, baseline_correctness=0.6)


def value(tokens: float, correct: float) -> float:
    return additive_fitness_of(tokens, correct, OBJECTIVE)


class Questions:
    """A set of questions: each has a length and a difficulty that all candidates share."""

    def __init__(self, seed: int, count: int = COUNT) -> None:
        self.rng = random.Random(seed)
        self.lengths = [self.rng.lognormvariate(4.3, 0.7) for _ in range(count)]
        self.difficulty = [self.rng.random() for _ in range(count)]

    def answers(self, factor: float, right: float) -> Partial:
        """A candidate with about `factor` times the length and a share `right` of right answers."""
        tokens = tuple(max(1, round(factor * length * self.rng.uniform(0.7, 1.3))) for length in self.lengths)
        correct = tuple(d + self.rng.gauss(0, 0.1) < right for d in self.difficulty)
        return Partial(tokens, correct)


def first(partial: Partial, count: int) -> Partial:
    return Partial(partial.tokens[:count], partial.correct[:count])


def run(field: Mapping[int, Partial], places: int, race: Race) -> tuple[dict[int, Partial], int]:
    """What each candidate has answered when the race is over, and how many answers that took."""
    remaining = set(field)
    seen: dict[int, Partial] = {}
    for rung in race.rungs:
        seen |= {index: first(field[index], rung) for index in remaining}
        remaining &= survivors(seen, places, race, value)
    return seen, sum(len(partial) for partial in seen.values())


def test_the_best_finish_and_most_of_the_others_stop_early() -> None:
    kept = answered = best = 0
    for seed in range(20):
        questions = Questions(seed)
        factors = [0.5, 0.55, 0.6, 0.65, *(0.8 + 0.1 * i for i in range(12))]
        field = {i: questions.answers(factor, 0.6) for i, factor in enumerate(factors)}
        seen, count = run(field, places=4, race=make_race(COUNT))
        truly = sorted(field, key=lambda i: -value(*field[i].means(COUNT)))
        kept += sum(len(seen[i]) == COUNT for i in truly[:4])
        best += len(seen[truly[0]]) == COUNT
        answered += count
    assert best == 20
    assert kept / 80 >= 0.9
    assert answered / (20 * 16 * COUNT) <= 0.6


def test_a_candidate_with_many_wrong_answers_stops_however_short_it_is() -> None:
    questions = Questions(1)
    field = {0: questions.answers(0.6, 0.6), 1: questions.answers(0.1, 0.15)}
    after_one_rung = {i: first(partial, 40) for i, partial in field.items()}
    assert survivors(after_one_rung, 1, make_race(COUNT), value) == {0}


def test_equal_candidates_all_go_on() -> None:
    same = Questions(1).answers(0.5, 0.6)
    field = {i: first(same, 20) for i in range(5)}
    assert survivors(field, 1, make_race(COUNT), value) == set(range(5))


def test_with_as_many_places_as_candidates_nobody_stops() -> None:
    questions = Questions(2)
    field = {i: first(questions.answers(0.2 + 0.5 * i, 0.6), 40) for i in range(4)}
    assert survivors(field, 4, make_race(COUNT), value) == set(range(4))
    assert len(survivors(field, 3, make_race(COUNT), value)) == 3


def test_a_complete_candidate_of_an_earlier_generation_takes_part() -> None:
    questions = Questions(3)
    best = questions.answers(0.4, 0.6)
    field = {-1: best, 0: first(questions.answers(0.9, 0.6), 20), 1: first(questions.answers(0.4, 0.6), 20)}
    assert survivors(field, 1, make_race(COUNT), value) >= {1}
    assert 0 not in survivors(field, 1, make_race(COUNT), value)


def test_a_wrong_stop_is_as_rare_as_the_level_says() -> None:
    race = make_race(COUNT)
    wrong = 0
    for seed in range(400):
        questions = Questions(seed)
        a, b = questions.answers(0.6, 0.6), questions.answers(0.6, 0.6)
        better, worse = (a, b) if value(*a.means(COUNT)) > value(*b.means(COUNT)) else (b, a)
        wrong += surely_better(first(worse, 20), first(better, 20), race, value)
    assert wrong / 400 <= 0.05


def test_after_all_questions_the_difference_itself_decides() -> None:
    short, long = Partial((10,) * 10, (True,) * 10), Partial((11,) * 9 + (10,), (True,) * 10)
    race = Race((5, 10))
    assert surely_better(short, long, race, value)
    assert not surely_better(long, short, race, value)


def test_no_difference_among_few_verdicts_is_not_taken_for_none() -> None:
    race = Race((10, 200))
    longer = Partial((30,) * 9 + (31,), (True,) * 10)
    shorter = Partial((20,) * 10, (True,) * 10)
    assert front_survivors({0: longer, 1: shorter}, race) == {0, 1}
    assert front_survivors({0: longer, 1: shorter}, Race((10, 200), tolerance=0.2)) == {1}


def test_the_front_keeps_short_and_right_and_drops_what_is_neither() -> None:
    questions = Questions(4)
    field = {
        0: questions.answers(0.3, 0.4),
        1: questions.answers(0.6, 0.7),
        2: questions.answers(1.2, 0.9),
        3: questions.answers(1.2, 0.3),
    }
    half = {i: first(partial, 50) for i, partial in field.items()}
    assert front_survivors(half, make_race(COUNT)) == {0, 1, 2}


def test_a_projection_is_closer_than_the_first_answers_alone() -> None:
    by_pairs = by_mean = 0.0
    for seed in range(60):
        questions = Questions(seed)
        reference, candidate = questions.answers(1.0, 0.6), questions.answers(0.6, 0.6)
        truth = candidate.means(COUNT)[0]
        by_pairs += abs(projected(first(candidate, 20), reference)[0] - truth)
        by_mean += abs(first(candidate, 20).means(20)[0] - truth)
    assert by_pairs < 0.7 * by_mean
    assert projected(candidate, reference) == pytest.approx(candidate.means(COUNT))


def test_rungs_double_and_end_with_all_questions() -> None:
    assert make_race(100).rungs == (10, 20, 40, 80, 100)
    assert make_race(4).rungs == (5,)
    assert make_race(1000, factor=3).rungs == (100, 300, 900, 1000)


@pytest.mark.parametrize("rungs", [(), (4, 10), (10, 10), (20, 10)])
def test_rungs_that_do_not_ascend_are_refused(rungs: tuple[int, ...]) -> None:
    with pytest.raises(ValueError, match="do not ascend"):
        Race(rungs)


def test_what_cannot_be_raced_is_refused() -> None:
    few = Partial((1,) * 3, (True,) * 3)
    with pytest.raises(ValueError, match="too few"):
        surely_better(few, few, Race((5, 10)), value)
    with pytest.raises(ValueError, match="no winner"):
        survivors({}, 0, Race((5,)), value)
    with pytest.raises(ValueError, match="level"):
        Race((5,), level=1.0)
    with pytest.raises(ValueError, match="verdicts"):
        Partial((1,), ())
    with pytest.raises(ValueError, match="reference"):
        projected(Partial((1,) * 9, (True,) * 9), few)
