"""The stages of a candidate, and what each asks of it."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace
from typing import Any, cast

from simulated_run import RUN

from tasks.plan import Candidate, ExampleSet, Plan
from tasks.records import Example
from tasks.stage import Stage
from tasks.store.store import Store

SETS = {name: (Example(name, "", "?", "!"),) for name in ("training", "validation", "test")}


def stage_of(**candidate: Any) -> Stage:
    store = cast(Store, SimpleNamespace(examples=lambda run_id: SETS))
    asked = Candidate(**{"index": 0, "deltas": (0.0,)} | candidate)
    return Stage(store, RUN, Plan("baselines", 0, (asked,)), asked, "pre", 0)


def test_a_candidate_is_asked_the_questions_of_its_set_with_the_next_seed_for_a_further_measurement() -> None:
    for name, examples in SETS.items():
        assert stage_of(examples=cast(ExampleSet, name)).examples() == examples
    seeds = [stage_of(repeat=repeat).sampling.seed for repeat in (0, 1)]
    assert seeds == [RUN.target.sampling.seed, RUN.target.sampling.seed + 1]


def test_a_candidate_s_system_prompt_replaces_the_run_s() -> None:
    run = replace(RUN, target=replace(RUN.target, system_prompt="Answer."))
    assert [replace(stage_of(system_prompt=own), run=run).system_prompt for own in (None, "")] == ["Answer.", ""]


def test_without_the_cache_a_search_answers_each_individual_anew_and_a_measurement_is_answered_once() -> None:
    def salt(purpose: str, index: int, generation: int = 0) -> str:
        stage = stage_of(index=index)
        plan = replace(stage.plan, purpose=purpose, generation=generation)
        return replace(stage, run=replace(RUN, evaluation_cache=False), plan=plan).cache_salt

    assert stage_of().cache_salt == ""
    assert len({salt("population", 0, 1), salt("population", 1, 1), salt("population", 0, 2), salt("final", 0)}) == 4
    # The winner is in three plans
    assert salt("finalists", 2) == salt("test", 3) == salt("final", 5)
