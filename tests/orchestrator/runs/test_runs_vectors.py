"""Vectors that need no search, and the one that a search starts from."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from pathlib import Path

import pytest
from simulated_measurer import SimulatedMeasurer
from simulated_run import RUN

from orchestrator.output import OutputFolder
from orchestrator.runs.vectors import (
    BOTH,
    EOT,
    LOG_ODDS,
    Families,
    StartPrompts,
    Steered,
    ensure_vectors,
    measure_lines,
    with_prompt,
)
from tasks.models import Constrained
from tasks.plan import Candidate
from tasks.store.store import Store

PLAIN = StartPrompts("Plain.", {"none": "Plain."})
TEXTS = {"none": "Plain.", "concise": "Be concise."}
BOTH_PROMPTS = StartPrompts("Plain.", TEXTS)


def respond(candidate: Candidate, number: int) -> tuple[int, bool]:
    """Answers that become shorter with the sum of the deltas, and wrong from 5 on."""
    return round(100 - 10 * sum(candidate.deltas)), sum(candidate.deltas) < 5


@pytest.fixture
def output(tmp_path: Path) -> OutputFolder:
    return OutputFolder(tmp_path)


def test_the_best_of_each_line_is_found_and_both_together_are_the_start(store: Store) -> None:
    # Given answers that become shorter, and from 5 on wrong
    measurer = SimulatedMeasurer(respond, store, training=8, validation=6)
    store.put_run(RUN)
    # When the lines are searched
    found = measure_lines(measurer, Families.of(2, 0, (0.0, -0.5), 8.0), 2, PLAIN)
    # Then the shortest that is still right wins in each, and both together are better than either
    best = {EOT: (4.0, 0.0), LOG_ODDS: (0.0, 2.0), BOTH: (4.0, 0.5)}
    assert found.best == {line: Steered("none", deltas) for line, deltas in best.items()}
    assert found.start == Steered("none", (4.0, 0.5))
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
    assert measure_lines(measurer, Families(eot=((1, 0), (2, 0))), 2, PLAIN).start.deltas == (best, 0)


@pytest.mark.parametrize(("questions", "kept"), [(8, "none"), (9, "concise")])
def test_of_very_few_questions_nothing_is_shown(store: Store, questions: int, kept: str) -> None:
    """All of eight are shorter by chance too often, where thirteen vectors are tried."""
    store.put_run(dataclasses.replace(RUN, objective=Constrained(100, 1)))
    families = Families(eot=((1, 0), (2, 0), (3, 0), (4, 0)), log_odds=((0, 0.1), (0, 0.2), (0, 0.3), (0, 0.4)))
    found = measure_lines(SimulatedMeasurer(sentence(0), store, training=questions), families, 2, BOTH_PROMPTS)
    assert found.start.prompt == kept


def test_what_is_in_the_folder_is_not_measured_again(store: Store, output: OutputFolder) -> None:
    store.put_run(RUN)
    families = Families.of(2, 0, (0.0, 1.0), 8.0)
    first = ensure_vectors(SimulatedMeasurer(respond, store, training=4), families, 2, PLAIN, output)
    again = SimulatedMeasurer(respond, store, training=4)
    assert ensure_vectors(again, families, 2, PLAIN, output) == first
    assert again.asked == []


def sentence(lost: int) -> Callable[[Candidate, int], tuple[int, bool]]:
    """Answers that are a third shorter with "concise" as well as without, which makes `lost` of them wrong."""

    def answer(candidate: Candidate, number: int) -> tuple[int, bool]:
        is_concise = candidate.system_prompt == "Be concise."
        is_lost = is_concise and candidate.examples == "training" and number < lost
        return round((67 if is_concise else 100) / (1 + sum(candidate.deltas))), not is_lost

    return answer


@pytest.mark.parametrize(("lost", "prompt"), [(0, "concise"), (1, "none")])
def test_a_sentence_stays_only_where_it_is_shown_to_be_better(store: Store, lost: int, prompt: str) -> None:
    # Given 40 answers that the sentence makes shorter, and one of them wrong or none: its fitness is higher in both
    measurer = SimulatedMeasurer(sentence(lost), store, training=20, validation=20)
    store.put_run(dataclasses.replace(RUN, objective=Constrained(100, 1)))
    # When the end of turn is raised with it and without it
    found = measure_lines(measurer, Families(eot=((1, 0), (2, 0))), 2, BOTH_PROMPTS)
    # Then only without a loss is it shown to be better
    assert found.start == Steered(prompt, (2, 0)) == found.best[EOT]
    other = {"concise": "none", "none": "concise"}[prompt]
    assert found.best[with_prompt(other)] == Steered(other, (2, 0))


@pytest.mark.parametrize(("lost", "start"), [(0, (1, 1)), (1, (1, 0))])
def test_log_odds_are_added_only_where_this_is_shown_to_be_better(
    store: Store, lost: int, start: tuple[float, ...]
) -> None:
    def answer(candidate: Candidate, number: int) -> tuple[int, bool]:
        is_scaled = any(candidate.deltas[1:])
        return round(100 / (1 + sum(candidate.deltas))), not (is_scaled and number < lost)

    measurer = SimulatedMeasurer(answer, store, training=40)
    store.put_run(dataclasses.replace(RUN, objective=Constrained(100, 1)))
    found = measure_lines(measurer, Families(eot=((1, 0),), log_odds=((0, 1),)), 2, PLAIN)
    # the best line is both together in both cases
    assert found.start.deltas == start and found.best[BOTH].deltas == (1, 1)
