"""What a stage asks of its candidate: the questions, the system prompt, the deltas."""

from __future__ import annotations

from dataclasses import replace

import pytest
from simulated_run import RUN

from tasks.plan import Candidate, Plan
from tasks.records import Example
from tasks.stage import Stage
from tasks.store.store import Store
from tasks.task import current_store

SETS = {
    which: [Example(f"{which}{i}", "", "?", "!") for i in range(10)] for which in ("training", "validation", "test")
}


@pytest.fixture
def stored(store: Store, valkey_url: str, monkeypatch: pytest.MonkeyPatch) -> Store:
    monkeypatch.setenv("WHETSTONE_REDIS_URL", valkey_url)
    current_store.cache_clear()
    store.put_run(RUN)
    store.put_examples(RUN.id, SETS)
    return store


def stage_of(store: Store, candidate: Candidate) -> Stage:
    return Stage(store, RUN, Plan("baselines", 0, (candidate,)), candidate, "pre", 0)


def test_a_candidate_names_its_set_of_questions(stored: Store) -> None:
    for which, examples in SETS.items():
        assert stage_of(stored, Candidate(0, (0.0,), examples=which)).examples() == tuple(examples)  # type: ignore[arg-type]


def test_a_candidate_s_system_prompt_replaces_the_run_s(stored: Store) -> None:
    plain = stage_of(stored, Candidate(0, (0.0,)))
    asks = replace(plain, run=replace(RUN, target=replace(RUN.target, system_prompt="Answer.")))
    assert asks.system_prompt == "Answer."
    own = Candidate(1, (0.0,), system_prompt="")
    assert replace(asks, candidate=own).system_prompt == ""


def test_without_the_cache_a_search_answers_each_individual_anew_and_a_measurement_is_answered_once(
    stored: Store,
) -> None:
    def salt(purpose: str, index: int, generation: int = 0) -> str:
        stage = stage_of(stored, Candidate(index, (0.0,)))
        plan = replace(stage.plan, purpose=purpose, generation=generation)
        return replace(stage, run=replace(RUN, evaluation_cache=False), plan=plan).cache_salt

    assert stage_of(stored, Candidate(0, (0.0,))).cache_salt == ""
    assert len({salt("population", 0, 1), salt("population", 1, 1), salt("population", 0, 2), salt("final", 0)}) == 4
    # The winner is in three plans
    assert salt("finalists", 2) == salt("test", 3) == salt("final", 5)
