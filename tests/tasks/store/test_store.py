"""The store on a real Valkey."""

from __future__ import annotations

import dataclasses

import pytest

from tasks.failure import Failure
from tasks.models import Clusters, Endpoint, Fitness, Judge, Reflector, Run, Sampling, Target
from tasks.plan import Candidate, Merge, Plan, StageRef, outcome, stage_refs
from tasks.store.store import JobContext, Store

PLAN = Plan(
    "g0_child",
    0,
    (
        Candidate(0, (0.0, 1.5), "pad\nof two lines", target=1, parents=(2,)),
        Candidate(1, (1.0, 0.0), merge=Merge("a", 1.0, "b", 0.5)),
    ),
)


def make_run(run_id: str) -> Run:
    return Run(
        id=run_id,
        seed=1,
        target=Target(
            model="embedded",
            engine="embedded",
            lifecycle="resident",
            url="",
            command="",
            args="",
            device="cpu",
            dtype="auto",
            ready_timeout_s=60.0,
            request_timeout_s=60.0,
            concurrency=4,
            system_prompt="Answer.",
            prompt_template="Context:\n{context}\n\nQuestion:\n{query}",
            sampling=Sampling(16, 0.0, 1.0, 42),
        ),
        judge=Judge("j", 0.01, True, 0.0, 1.0, 128, 1, 2),
        reflector=Reflector("r", 0.7, 1.0, 128, 1),
        endpoint=Endpoint("", "KEY", 10.0, 3, 100, 1000, 1.0, 0.5, 2.0, 0.0),
        objective=Fitness(0.4, 0.6, 50.0),
        clusters=Clusters("c", "embedded", 5, 2, 1, 8, "cpu", discovered=(4, 2)),
        evaluation_cache=True,
    )


def test_a_run_comes_back_as_it_went_in_newlines_and_all(store: Store) -> None:
    run = make_run("here")
    store.put_run(run)
    assert store.run("here") == run
    assert "\n\nQuestion:\n" in store.run("here").target.prompt_template
    with pytest.raises(KeyError, match="elsewhere"):
        store.run("elsewhere")


def test_a_plan_keeps_its_stages_until_a_different_plan_takes_its_name(store: Store) -> None:
    store.put_plan("r", PLAN)
    store.put_stage("r", PLAN.name, "0:pre:score", {"fitness": 1.0}, 1)
    store.put_plan("r", PLAN)
    assert store.plan("r", PLAN.name) == PLAN
    assert store.stages("r", PLAN.name) == {"0:pre:score": {"fitness": 1.0}}
    store.put_plan("r", dataclasses.replace(PLAN, candidates=PLAN.candidates[:1]))
    assert store.stages("r", PLAN.name) == {}


def test_the_first_record_of_a_stage_stands(store: Store) -> None:
    store.put_plan("r", PLAN)
    store.put_stage("r", PLAN.name, "0:pre:score", {"fitness": 1.0}, 1)
    store.put_stage("r", PLAN.name, "0:pre:score", {"fitness": 2.0}, 1)
    assert store.stage("r", PLAN.name, "0:pre:score") == {"fitness": 1.0}


def test_records_that_are_forgotten_are_not_written_again_by_a_task_of_an_earlier_attempt(store: Store) -> None:
    # Given a plan with a record, and a task of its first attempt that is still at work
    store.put_plan("r", PLAN)
    store.begin_attempt("r", PLAN.name, lambda failures: [])
    store.put_stage("r", PLAN.name, "0:pre:judge", {"by": "old"}, 1)
    # When the records are forgotten, and the task ends after that
    store.forget_stages("r", [PLAN.name, "g9_child"])
    store.put_stage("r", PLAN.name, "1:pre:judge", {"by": "old"}, 1)
    assert store.stages("r", PLAN.name) == {}
    # Then only the next attempt leaves records
    assert store.begin_attempt("r", PLAN.name, lambda failures: []) == 2
    store.put_stage("r", PLAN.name, "1:pre:judge", {"by": "new"}, 2)
    assert store.stages("r", PLAN.name) == {"1:pre:judge": {"by": "new"}}
    assert store.plan("r", PLAN.name) == PLAN


def test_plans_that_are_recorded_elsewhere_are_dropped_whole(store: Store) -> None:
    store.put_plan("r", PLAN)
    store.put_stage("r", PLAN.name, "0:pre:score", {"fitness": 1.0}, 1)
    store.forget_plans("r", ["g0_pop", PLAN.name])
    assert store.redis.keys("*") == []


def failure(name: str, attempt: int) -> Failure:
    return Failure("r", PLAN.name, name, f"g0_pop{name}", "score", "E", f"task-{name}", 1, float(name), attempt)


def test_failures_are_forgotten_by_the_next_attempt(store: Store) -> None:
    store.put_plan("r", PLAN)
    assert store.begin_attempt("r", PLAN.name, lambda failures: []) == 1
    store.put_failure(failure("0", 1))
    assert store.failures("r") == store.failures("r", PLAN.name) == [failure("0", 1)]
    assert store.failures("r", "jobs") == []
    assert store.begin_attempt("r", PLAN.name, lambda failures: []) == 2
    assert store.failures("r") == []


def test_failures_that_stand_belong_to_the_next_attempt(store: Store) -> None:
    store.begin_attempt("r", PLAN.name, lambda failures: [])
    for name in ("0", "1"):
        store.put_failure(failure(name, 1))
    assert store.begin_attempt("r", PLAN.name, lambda failures: failures[1:]) == 2
    assert store.failures("r") == [failure("1", 2)]


def test_the_failures_of_a_plan_are_forgotten_with_it(store: Store) -> None:
    store.put_plan("r", PLAN)
    store.put_failure(failure("0", 1))
    store.forget_plans("r", [PLAN.name])
    assert store.failures("r") == []


def test_of_two_that_forget_a_failure_one_is_told_that_it_was_there(store: Store) -> None:
    store.put_failure(failure("0", 1))
    assert [store.forget_failure(failure("0", 1)) for _ in range(2)] == [True, False]


def test_a_job_is_known_by_its_key(store: Store) -> None:
    with pytest.raises(KeyError, match="no job 'file:x' of a run 'r'"):
        store.job_context("r", "file:x")
    store.begin_attempt("r", "jobs", lambda failures: [])
    store.put_job("r", "file:x", "{}")
    assert store.job_context("r", "file:x") == JobContext(b"{}", 1, done=False, cancelled=False)
    store.put_shared("r", "file:x", {})
    assert store.job_context("r", "file:x").done


def test_a_shared_result_outlives_the_runs_but_the_last_that_used_it(store: Store) -> None:
    for run_id in ("one", "two"):
        store.put_run(make_run(run_id))
    store.put_shared("one", "answer:x", {"text": "first"})
    store.put_shared("two", "answer:x", {"text": "second"})
    assert store.shared("two", ["answer:x", "answer:y"]) == {"answer:x": {"text": "first"}}
    store.delete_run("one")
    assert store.run_ids() == ["two"]
    assert store.shared("two", ["answer:x"]) == {"answer:x": {"text": "first"}}
    store.delete_run("two")
    assert store.redis.keys("*") == []


def test_a_candidate_is_complete_only_with_all_its_stages() -> None:
    score = {"fitness": 0.5, "shortness": 0.4, "correctness": 0.6, "mean_tokens": 10.0, "seconds": 1.0}
    mutated = PLAN.candidates[0]
    assert [ref.stage for ref in stage_refs(mutated)] == [
        "answer",
        "judge",
        "score",
        "reflect",
        "answer",
        "judge",
        "score",
    ]
    assert [ref.stage for ref in stage_refs(PLAN.candidates[1])] == ["merge", "answer", "judge", "score"]
    records = {ref.field: {"seconds": 1.0, "generated": 0} for ref in stage_refs(mutated)}
    records |= {StageRef(0, "score", "pre").field: score, StageRef(0, "score", "mut").field: {**score, "fitness": 0.9}}
    records[StageRef(0, "reflect", "mut").field] = {"delta": 2.0, "scratchpad": "learnt", "seconds": 1.0}
    found = outcome(mutated, records)
    assert found is not None
    assert (found.delta, found.mutated_scratchpad, found.pre.fitness) == (2.0, "learnt", 0.5)
    assert found.mut is not None
    assert found.mut.fitness == 0.9
    assert found.seconds["answer"] == 2.0
    for ref in stage_refs(mutated):
        assert outcome(mutated, {f: r for f, r in records.items() if f != ref.field}) is None


def test_a_skipped_mutation_has_no_second_score() -> None:
    score = {"fitness": 0.5, "shortness": 0.4, "correctness": 0.6, "mean_tokens": 10.0}
    records = {ref.field: {"skipped": True} for ref in stage_refs(PLAN.candidates[0])}
    records["0:pre:score"] = score
    records["0:mut:reflect"] = {"delta": None, "reason": "twice the same delta"}
    found = outcome(PLAN.candidates[0], records)
    assert found is not None
    assert (found.delta, found.mut, found.mutated_scratchpad) == (None, None, "pad\nof two lines")
