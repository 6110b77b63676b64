"""The test set: which systems are asked it, and how often it has been used."""

from __future__ import annotations

import dataclasses

import pytest
from measured_systems import EVOLVED, ONE_SENTENCE, PLAIN, SHORT_BUT_WRONG, system
from simulated_measurer import questions
from simulated_run import RUN

from orchestrator.report.systems import MeasuredSystem
from orchestrator.runs.held_out import count_test_use, systems_to_test
from tasks.store.store import Store

EOT, ODDS = system("end of turn alone", "vector", 0.8), system("log-odds alone", "vector", 0.7)
LOSER = system("g1_pop3", "evolved", 0.5)
ALL = (PLAIN, ONE_SENTENCE, SHORT_BUT_WRONG, EOT, ODDS, EVOLVED, LOSER)


def names(*also: str) -> list[str]:
    return [one.name for one in systems_to_test(ALL, EVOLVED, also)]


def test_the_plain_model_the_best_of_the_rivals_and_the_winner_are_tested() -> None:
    assert names() == ["none", "final answer only", "log-odds alone", "evolved 1"]


def test_so_are_the_prompt_that_the_search_started_from_and_the_best_that_loses_nothing() -> None:
    assert names("none", "one sentence") == ["none", "one sentence", "final answer only", "log-odds alone", "evolved 1"]


@pytest.mark.parametrize("winner", [PLAIN, ODDS, EOT])
def test_a_winner_that_is_no_evolved_system_is_tested_once(winner: MeasuredSystem) -> None:
    tested = [one.name for one in systems_to_test(ALL, winner, ())]
    assert tested.count(winner.name) == 1 and tested[:3] == ["none", "final answer only", "log-odds alone"]


def used(
    store: Store, run_id: str, winner: MeasuredSystem = EVOLVED, count: int = 3, *, is_turned: bool = False
) -> int:
    rows = questions("q", count)
    store.put_run(dataclasses.replace(RUN, id=run_id))
    store.put_examples(run_id, {"training": [], "validation": [], "test": rows[::-1] if is_turned else rows})
    return count_test_use(store, run_id, winner)


def test_a_test_set_is_counted_by_its_questions_once_for_each_winner_of_a_run(store: Store) -> None:
    assert used(store, "one") == 1
    assert used(store, "one") == 1, "the same session again"
    assert used(store, "two", is_turned=True) == 2
    assert used(store, "one", dataclasses.replace(EVOLVED, deltas=(0.25, 0.5))) == 3, "the run went on after its test"
    assert used(store, "one", count=4) == 1, "other questions"
