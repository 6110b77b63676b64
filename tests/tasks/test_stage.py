"""What each stage of a candidate asks, and what a task that fails leaves where its run looks."""

from __future__ import annotations

import time
from dataclasses import replace
from types import SimpleNamespace
from typing import Any, cast

import pytest
from celery import Celery
from celery.exceptions import Ignore, Reject
from simulated_run import RUN

from tasks.collect.tokens import tokenize_task
from tasks.cpu.score import score_task
from tasks.plan import Candidate, ExampleSet, Plan
from tasks.records import Example, Failure, JobSpec
from tasks.stage import Stage
from tasks.store.address import ENVIRONMENT_VARIABLE
from tasks.store.plans import WorkState
from tasks.store.store import Store
from tasks.task import FarmTask, GiveBack, current_store, run_once

KEY = "tokenized:" + "0" * 64
SETS = {name: (Example(name, "", "?", "!"),) for name in ("training", "validation", "test")}


@pytest.fixture(autouse=True)
def store_of_the_tasks(store: Store, valkey_url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(ENVIRONMENT_VARIABLE, valkey_url)
    current_store.cache_clear()


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


def test_a_stage_s_failure_is_recorded_for_its_candidate_and_a_job_s_under_its_key(store: Store) -> None:
    store.put_job("run", KEY, JobSpec("cpu.tokenize", "sample_id_3/0", {}))
    score_task.on_failure(ValueError("no answers"), "some-id", ("run", "g0_pop", 2, "pre", 7), {}, None)
    tokenize_task.on_failure(ValueError("no text"), "other-id", ("run", KEY, 7), {}, None)
    found = store.failures("run")
    assert all(time.time() - failure.at < 60 for failure in found)
    assert [replace(failure, at=0) for failure in found] == [
        Failure("run", "g0_pop", "2", "g0_pop2", "score", "ValueError: no answers", "some-id", 1, 0, 7),
        Failure("run", "jobs", KEY, "sample_id_3/0", "tokenize", "ValueError: no text", "other-id", 1, 0, 7),
    ]


def test_what_is_done_cancelled_or_of_an_earlier_attempt_is_not_worked_on(store: Store) -> None:
    kept: list[dict[str, Any]] = []

    def run(state: WorkState) -> None:
        run_once(store, "lock", 2, lambda: (state, "found"), lambda found: {"of": found}, kept.append)

    run(WorkState(2, done=True, cancelled=False))
    for state in (WorkState(2, done=False, cancelled=True), WorkState(3, done=False, cancelled=False)):
        with pytest.raises(Ignore):
            run(state)
    assert kept == []
    run(WorkState(2, done=False, cancelled=False))
    assert [one["of"] for one in kept] == ["found"]


def test_a_task_that_this_worker_cannot_do_now_goes_back_and_counts_as_never_started(store: Store) -> None:
    app = Celery(set_as_current=False)

    @app.task(base=FarmTask, bind=True, name="gpu.busy")
    def busy(self: FarmTask, run: str) -> None:
        raise GiveBack("the card computes")

    for _ in range(FarmTask.max_retries + 1):
        request = {"id": "some-id", "delivery_info": {"redelivered": True}, "is_eager": True}
        busy.push_request(**request)
        with pytest.raises(Reject, match="the card computes") as given_back:
            FarmTask.__call__(busy, "run")
        busy.pop_request()
        assert given_back.value.requeue
    assert store.failure_count("run", "some-id") == 0
