"""The objective of a run, before and after its baseline has been measured."""

from __future__ import annotations

from typing import Any

from orchestrator.settings import load_settings, make_run
from tasks.models import Constrained, Fitness, Run, Score
from tasks.objective import LEAST_TOKENS

BASELINE = Score(fitness=0.5, shortness=0.4, correctness=0.6, mean_tokens=80.0)


def test_the_weighted_fitness_does_not_depend_on_a_baseline(sound: Any) -> None:
    settings = load_settings(sound.path)
    weighted = Fitness(settings.lambda_shortness, settings.lambda_correctness, settings.shortness_scale)
    assert make_run(settings, "here").objective == make_run(settings, "here", BASELINE).objective == weighted


def test_a_constrained_run_is_compared_with_its_baseline_once_that_is_known(sound: Any) -> None:
    settings = load_settings(sound.path, ["OBJECTIVE=constrained", "MARGIN=0.05"])
    assert isinstance(make_run(settings, "here").objective, Fitness)
    run = make_run(settings, "here", BASELINE)
    # The margin is that of the report: the search has none.
    assert run.objective == Constrained(80.0, 0.6, margin=0.0)
    assert Run.from_json(run.to_json()) == run


def test_a_baseline_of_empty_answers_counts_as_the_least_tokens(sound: Any) -> None:
    settings = load_settings(sound.path, ["OBJECTIVE=constrained"])
    objective = make_run(settings, "here", Score(0.0, 1.0, 0.0, 0)).objective
    assert isinstance(objective, Constrained) and objective.baseline_tokens == LEAST_TOKENS
