"""The judge stage: verdicts are shared by runs, unless a run has its evaluation cache switched off.

A judge's reply that cannot be used is asked for again with another seed, and is never a wrong answer.
"""

from __future__ import annotations

import dataclasses
from typing import Any

import pytest

from tasks.openai import endpoint as errors
from tasks.openai.calls import NEEDED_TRIES
from tasks.openai.judge import judge_stage
from tasks.plan import Candidate, Plan
from tasks.records import Example, Run
from tasks.stage import run_stage
from tasks.store.store import Store

PLAN = Plan("population", 0, (Candidate(0, (0.0,)),))


def judged(store: Store, run: Run, gold: str = "No, it is not.", **changes: Any) -> dict[str, Any]:
    """The record of the judge stage of one answer."""
    run = dataclasses.replace(run, **changes)
    store.put_run(run)
    store.put_examples(run.id, {"training": [Example("q", "", "Is it?", gold)], "validation": []})
    store.put_plan(run.id, PLAN)
    store.put_shared(run.id, f"answer:{run.id}", {"text": "It is not."})
    attempt = store.begin_attempt(run.id, PLAN.name, lambda failures: [])
    store.put_stage(run.id, PLAN.name, "0:pre:answer", {"answers": [{"key": f"answer:{run.id}"}]}, attempt)
    run_stage("judge", (run.id, PLAN.name, 0, "pre", attempt), judge_stage)
    record = store.stage(run.id, PLAN.name, "0:pre:judge")
    assert record is not None
    return record


@pytest.mark.parametrize(("caches", "second"), [((True, True), 0), ((True, False), 1), ((False, False), 1)])
def test_a_second_run_reaches_its_own_verdicts_only_with_the_cache_off(
    store: Store, embedded_run: Run, caches: tuple[bool, bool], second: int
) -> None:
    assert judged(store, embedded_run, id="first", evaluation_cache=caches[0])["judged"] == 1
    assert judged(store, embedded_run, id="second", evaluation_cache=caches[1])["judged"] == second


def test_nobody_is_asked_about_a_question_without_a_right_answer(store: Store, embedded_run: Run, service: Any) -> None:
    assert judged(store, embedded_run, gold="", id="everyday")["verdicts"][0]["is_correct"] is False
    assert not [call for call in service.calls() if call["call_id"].startswith("everyday-")]


@pytest.mark.parametrize("fault", ["invalid_json", "truncated", "refusal"])
def test_an_unusable_verdict_is_asked_for_again_each_time_with_another_seed(
    store: Store, embedded_run: Run, service: Any, fault: str
) -> None:
    # Given a verdict whose tries are all unusable, and one try of the task that is retried
    service.fail(f"verdict:{fault}:{NEEDED_TRIES + 1}")
    with pytest.raises(errors.UnusableReplyError):
        judged(store, embedded_run, id=fault)
    # Then the next seed is asked for, and nothing twice
    assert judged(store, embedded_run, id=fault)["verdicts"][0]["is_correct"] is True
    asked = [call["call_id"] for call in service.calls() if call["call_id"].startswith(f"{fault}-verdict-")]
    assert [one.removeprefix(asked[0]) for one in asked] == ["", "-2", "-3", "-4", "-5"]


def test_a_judge_that_cannot_be_reached_is_not_asked_again(store: Store, embedded_run: Run, service: Any) -> None:
    service.fail("verdict:500:*")
    endpoint = dataclasses.replace(embedded_run.endpoint, max_tries=1)
    with pytest.raises(errors.UnavailableError):
        judged(store, embedded_run, id="unreachable", endpoint=endpoint)
    assert len([call for call in service.calls() if call["call_id"].startswith("unreachable-")]) == 1
