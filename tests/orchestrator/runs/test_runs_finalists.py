"""Which vectors are asked the validation set after a search, and which one wins there."""

from __future__ import annotations

import json
from pathlib import Path

from measured_systems import system

from orchestrator.runs.finalists import Evaluation, choose_winner, finalists, front, read_evaluations

SHORT = Evaluation("g1_pop0", 1, (3.0,), 0.60, 20.0, 0.5)
MIDDLE = Evaluation("g1_pop1", 1, (2.0,), 0.80, 40.0, 0.7)
DOMINATED = Evaluation("g1_pop2", 1, (1.0,), 0.75, 50.0, 0.6)
LONG = Evaluation("g0_pop0", 0, (0.0,), 0.70, 90.0, 0.8)
ALL = (LONG, SHORT, MIDDLE, DOMINATED)


def test_the_front_is_what_no_other_beats_in_tokens_without_fewer_right_answers() -> None:
    assert front(ALL) == [SHORT, MIDDLE, LONG]
    equal = Evaluation("g2_pop0", 2, (5.0,), 0.6, 20.0, 0.5)
    assert front([SHORT, equal]) == [SHORT], "of equals the first"


def test_the_search_s_own_best_comes_first_then_the_front_then_the_rest() -> None:
    assert finalists(ALL, DOMINATED.deltas, 9) == [DOMINATED, MIDDLE, LONG, SHORT]
    assert finalists(ALL, MIDDLE.deltas, 9) == [MIDDLE, LONG, SHORT, DOMINATED]
    assert finalists(ALL, MIDDLE.deltas, 2) == [MIDDLE, LONG]


def test_a_vector_that_was_evaluated_twice_is_one_finalist() -> None:
    again = Evaluation("g2_pop3", 2, MIDDLE.deltas, 0.8, 40.0, 0.7)
    assert finalists([*ALL, again], MIDDLE.deltas, 9).count(MIDDLE) == 1
    assert again not in finalists([*ALL, again], MIDDLE.deltas, 9)


def test_what_left_a_race_has_no_score_of_its_own_and_is_left_out(tmp_path: Path) -> None:
    line = {"generation": 1, "fitness": 0.8, "mean_tokens": 40.0, "correctness": 0.7}
    lines = [
        {"node": "g1_pop1", "deltas": {"10": 0.5, "2": 2.0}, **line},
        {"node": "g1_pop2", "deltas": {"10": 0.0, "2": 0.0}, **line, "stopped": {"answered": 5, "of": 40}},
    ]
    path = tmp_path / "individuals.jsonl"
    path.write_text("".join(json.dumps(one) + "\n" for one in lines))
    assert read_evaluations(path) == [Evaluation("g1_pop1", 1, (2.0, 0.5), 0.8, 40.0, 0.7)]


def test_the_winner_has_the_highest_fitness_on_the_validation_set() -> None:
    lossy, good, equal = system("a", "evolved", 0.4, lost=90), system("b", "evolved", 0.4), system("c", "evolved", 0.4)
    assert choose_winner([lossy, good, equal]) is good
    assert choose_winner([lossy]) is lossy
