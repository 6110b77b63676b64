"""Two vectors that need no search."""

from __future__ import annotations

import dataclasses

from simulated_measurer import SimulatedMeasurer
from simulated_run import RUN

from orchestrator.runs.vectors import EOT_DELTAS, Families, measure_vectors
from tasks.models import Fitness
from tasks.plan import Candidate
from tasks.store.store import Store

OBJECTIVE = Fitness(0.4, 0.6, 50)


def test_the_end_of_a_turn_alone_is_raised_as_far_as_the_bound() -> None:
    lines = Families.of(3, 1, (), 4.0).lines
    assert list(lines) == ["end of turn alone"]
    assert lines["end of turn alone"] == ((0, 1, 0), (0, 2, 0), (0, 3, 0), (0, 4, 0))
    assert len(Families.of(3, 1, (), 8.0).lines["end of turn alone"]) == len(EOT_DELTAS)


def test_the_log_odds_are_turned_around_and_kept_within_the_bound() -> None:
    lines = Families.of(3, None, (1.0, -0.5, 0.0), 1.5).lines
    assert lines == {"log-odds alone": ((-0.25, 0.125, 0), (-0.5, 0.25, 0), (-1.0, 0.5, 0), (-1.5, 1.0, 0))}


def test_a_clustering_that_allows_neither_has_no_vectors(store: Store) -> None:
    measurer = SimulatedMeasurer(lambda candidate, number: (1, True), store, training=4)
    store.put_run(RUN)
    assert Families.of(3, None, (0.0, 0.0, 0.0), 4.0) == Families({})
    assert measure_vectors(measurer, Families({}), "validation", OBJECTIVE, 3) == ()
    assert measurer.asked == []


def test_the_training_set_chooses_in_each_line_and_only_its_choice_is_validated(store: Store) -> None:
    # Given answers that become shorter, and from 4 on wrong
    def respond(candidate: Candidate, number: int) -> tuple[int, bool]:
        return round(100 - 10 * sum(candidate.deltas)), sum(candidate.deltas) < 4

    measurer = SimulatedMeasurer(respond, store, training=8, validation=6)
    store.put_run(dataclasses.replace(RUN, target=dataclasses.replace(RUN.target, system_prompt="Be concise.")))
    # When both lines are searched
    families = Families.of(2, 0, (-1.0, 0.0), 8.0)
    systems = measure_vectors(measurer, families, "validation", OBJECTIVE, 3)
    # Then the shortest that is still right wins, with the system prompt of the search
    assert [(s.name, s.kind, s.deltas) for s in systems] == [
        ("end of turn alone", "vector", (3.0, 0.0)), ("log-odds alone", "vector", (2.0, 0.0)),
    ]  # fmt: skip
    assert {s.system_prompt for s in systems} == {"Be concise."}
    assert [s.validation.tokens for s in systems if s.validation] == [(70,) * 6, (80,) * 6]
    assert [{c.examples for c in candidates} for _, candidates in measurer.asked] == [{"training"}, {"validation"}]
