"""Vectors that need no search, and the one that a search starts from."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import pytest
from simulated_measurer import SimulatedMeasurer
from simulated_run import RUN

from orchestrator.output import OutputError, OutputFolder
from orchestrator.runs.measuring import is_of_search
from orchestrator.runs.vectors import (
    BOTH,
    EOT,
    LOG_ODDS,
    VECTORS_FILE,
    Families,
    ensure_vectors,
    measure_lines,
    rungs_of_sets,
    validate_vectors,
)
from tasks.models import Constrained, Fitness
from tasks.plan import Candidate, Plan, question_order
from tasks.store.store import Store

OBJECTIVE = Fitness(0.4, 0.6, 50)


def respond(candidate: Candidate, number: int) -> tuple[int, bool]:
    """Answers that become shorter with the sum of the deltas, and wrong from 5 on."""
    return round(100 - 10 * sum(candidate.deltas)), sum(candidate.deltas) < 5


@pytest.fixture
def output(tmp_path: Path) -> OutputFolder:
    return OutputFolder(tmp_path)


def test_the_end_of_a_turn_is_raised_as_far_as_the_bound() -> None:
    assert Families.of(3, 1, (), 4.0) == Families(eot=((0, 1, 0), (0, 2, 0), (0, 3, 0), (0, 4, 0)))


def test_the_log_odds_are_turned_around_and_kept_within_the_bound() -> None:
    families = Families.of(3, None, (1.0, -0.5, 0.0), 1.5)
    assert families == Families(log_odds=((-0.5, 0.25, 0), (-1.0, 0.5, 0), (-1.5, 1.0, 0), (-1.5, 1.5, 0)))


def test_a_clustering_that_allows_neither_has_no_vectors(store: Store) -> None:
    measurer = SimulatedMeasurer(respond, store, training=4)
    store.put_run(RUN)
    assert Families.of(3, None, (0.0, 0.0, 0.0), 4.0) == Families()
    found = measure_lines(measurer, Families(), 3, "Plain.")
    assert found.best == {} and found.start == (0.0, 0.0, 0.0)
    assert validate_vectors(measurer, found, "validation", OBJECTIVE, 3) == ()
    assert measurer.asked == []


def test_the_best_of_each_line_and_of_all_is_chosen(store: Store) -> None:
    # Given answers that become shorter, and from 5 on wrong
    measurer = SimulatedMeasurer(respond, store, training=8, validation=6)
    store.put_run(RUN)
    # When the lines are searched
    found = measure_lines(measurer, Families.of(2, 0, (0.0, -0.5), 8.0), 2, "Plain.")
    # Then the shortest that is still right wins in each, and both together are better than either
    assert found.best == {EOT: (4.0, 0.0), LOG_ODDS: (0.0, 2.0), BOTH: (4.0, 0.5)}
    assert found.start == (4.0, 0.5)
    assert {c.examples for _, candidates in measurer.asked for c in candidates} == {"training", "validation"}
    assert found.evaluations == measurer.evaluations


@pytest.mark.parametrize(("wrong", "best"), [("training", 1), ("validation", 1), ("neither", 2)])
def test_right_answers_of_both_sets_choose(store: Store, wrong: str, best: float) -> None:
    # Given a vector that halves all answers, and of one set only makes half of them wrong
    def half_wrong(candidate: Candidate, number: int) -> tuple[int, bool]:
        is_wrong = sum(candidate.deltas) == 2 and candidate.examples == wrong and number % 2 == 0
        return round(100 / (1 + sum(candidate.deltas))), not is_wrong

    measurer = SimulatedMeasurer(half_wrong, store, training=8, validation=8)
    store.put_run(dataclasses.replace(RUN, objective=Constrained(100, 1)))
    # When and then: it is chosen where neither set speaks against it
    assert measure_lines(measurer, Families(eot=((1, 0), (2, 0))), 2, "Plain.").start == (best, 0)


def test_rungs_ask_the_same_share_of_each_set() -> None:
    assert rungs_of_sets((64, 64)) == ((16, 16), (32, 32), (64, 64))
    assert rungs_of_sets((64, 10)) == ((16, 3), (32, 5), (64, 10))
    assert rungs_of_sets((64, 200)) == ((16, 50), (32, 100), (64, 200))
    assert rungs_of_sets((64,)) == ((16,), (32,), (64,))
    assert rungs_of_sets((12, 40)) == ((12, 40),)


def test_the_worse_half_of_a_line_stops_and_the_best_goes_on(store: Store) -> None:
    # Given four vectors of which the last is the best, 64 questions to train on and 40 to choose by
    measurer = SimulatedMeasurer(respond, store, training=64, validation=40)
    store.put_run(dataclasses.replace(RUN, objective=Constrained(100, 1)))
    # When the line is searched
    found = measure_lines(measurer, Families(log_odds=((0, 0), (1, 0), (2, 0), (3, 0))), 2, "Plain.")
    # Then the worse half stops after a quarter and after a half of each set, and the plain model answers the same parts
    assert found.best == {LOG_ODDS: (3, 0)} and found.start == (3, 0)
    line = measurer.asked[:3]
    assert [name for name, _ in line] == ["lines0_", "lines1_", "lines2_"]
    for which, (first, second) in {"training": (16, 32), "validation": (10, 20)}.items():
        asked = [[c for c in candidates if c.examples == which] for _, candidates in line]
        assert [[(c.deltas, c.system_prompt, c.questions) for c in candidates] for candidates in asked] == [
            [((), "Plain.", first), *(((delta, 0), None, first) for delta in range(4))],
            [((), "Plain.", second), ((3, 0), None, second), ((2, 0), None, second)],
            [((), "Plain.", 0), ((3, 0), None, 0)],
        ]
    # And none of these plans is one of a search, whose records another judge would leave in the store
    assert not any(is_of_search(Plan(name, 0, ())) for name, _ in measurer.asked)
    # And what answers several parts of a set is one evaluation: of four vectors, of zeros, and twice of the plain model
    assert found.evaluations.computed == 2 * (5 + 2)


def test_raised_ends_of_a_turn_answer_all_questions(store: Store) -> None:
    # Given three raises, and more questions than vectors that stop early are asked first
    measurer = SimulatedMeasurer(respond, store, training=64, validation=64)
    store.put_run(RUN)
    # When and then: no raise stops early, whichever questions come first
    measure_lines(measurer, Families(eot=((2, 0), (4, 0), (8, 0))), 2, "Plain.")
    assert [name for name, _ in measurer.asked] == ["lines0_", "lines0_"]
    assert {c.questions for _, candidates in measurer.asked for c in candidates} == {0}


def test_on_a_part_of_harder_questions_a_vector_is_compared_with_the_plain_model_there(store: Store) -> None:
    # Given that 8 of the 16 questions that are asked first are too hard for all, and 1 more for the shorter vector
    order = question_order(64, RUN.seed)
    tokens, hard = {10.0: 10, 1.0: 60, 0.0: 100}, set(order[:8])

    def harder(candidate: Candidate, number: int) -> tuple[int, bool]:
        is_shorter = sum(candidate.deltas) == 10
        return tokens[sum(candidate.deltas)], number not in hard and not (is_shorter and number == order[8])

    measurer = SimulatedMeasurer(harder, store, training=64)
    store.put_run(dataclasses.replace(RUN, objective=Constrained(100, 56 / 64)))
    # When only one of the two goes on after these questions
    found = measure_lines(measurer, Families(log_odds=((1, 0), (10, 0))), 2, "Plain.")
    # Then it is the shorter one: against the plain model there it has lost 1 answer of 16, and not 7
    assert found.best == {LOG_ODDS: (10, 0)}


def test_where_no_vector_is_better_the_search_starts_from_zeros(store: Store) -> None:
    measurer = SimulatedMeasurer(lambda candidate, number: (10, not any(candidate.deltas)), store, training=4)
    store.put_run(RUN)
    assert measure_lines(measurer, Families.of(2, 0, (0.0, 1.0), 8.0), 2, "Plain.").start == (0.0, 0.0)


def test_what_is_in_the_folder_is_not_measured_again(store: Store, output: OutputFolder) -> None:
    store.put_run(RUN)
    families = Families.of(2, 0, (0.0, 1.0), 8.0)
    first = ensure_vectors(SimulatedMeasurer(respond, store, training=4), families, 2, "Plain.", output)
    again = SimulatedMeasurer(respond, store, training=4)
    assert ensure_vectors(again, families, 2, "Plain.", output) == first
    assert again.asked == []


@pytest.mark.parametrize(
    ("start", "says"),
    [([0.0, 2000.0], r"vectors\.json.* start\[1\]: .* at most 1000"), ([0.0], r"not one delta for each of 2 clusters")],
)
def test_vectors_that_no_server_takes_are_refused_by_name(
    store: Store, output: OutputFolder, start: list[float], says: str
) -> None:
    output.write_json(VECTORS_FILE, {"best": {}, "start": start})
    with pytest.raises(OutputError, match=says):
        ensure_vectors(SimulatedMeasurer(respond, store, training=4), Families.of(2, 0, (), 8.0), 2, "Plain.", output)


def test_the_validation_set_is_asked_with_the_prompt_of_the_search(store: Store) -> None:
    measurer = SimulatedMeasurer(respond, store, training=8, validation=6)
    store.put_run(dataclasses.replace(RUN, target=dataclasses.replace(RUN.target, system_prompt="Be concise.")))
    found = measure_lines(measurer, Families.of(2, 0, (0.0, -0.5), 8.0), 2, "Plain.")
    systems = validate_vectors(measurer, found, "validation", OBJECTIVE, 3)
    assert [(s.name, s.kind, s.deltas) for s in systems] == [(n, "vector", d) for n, d in found.best.items()]
    assert {s.system_prompt for s in systems} == {"Be concise."}
    assert [s.validation.tokens for s in systems if s.validation] == [(60,) * 6, (80,) * 6, (55,) * 6]
