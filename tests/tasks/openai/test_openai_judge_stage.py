"""The judge stage: verdicts are shared by runs, unless a run has its evaluation cache switched off."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from orchestrator.settings import load_settings, make_run
from tasks import context
from tasks.models import Example, Run
from tasks.openai.judge import judge_stage
from tasks.plan import Candidate, Plan
from tasks.stage import run_stage
from tasks.store.store import Store

ROOT = Path(__file__).parents[3]
PLAN = Plan("g0_pop", 0, (Candidate(0, (0.0,)),))


@pytest.fixture
def run(store: Store, service: Any, valkey_url: str, monkeypatch: pytest.MonkeyPatch) -> Iterator[Run]:
    monkeypatch.chdir(ROOT)
    monkeypatch.setenv("WHETSTONE_REDIS_URL", valkey_url)
    monkeypatch.setenv("KEY_OF_THIS_TEST", "k")
    context.store.cache_clear()
    made = make_run(load_settings(Path("configs/embedded.config")), "first")
    yield dataclasses.replace(
        made, endpoint=dataclasses.replace(made.endpoint, base_url=service.url, api_key_env="KEY_OF_THIS_TEST")
    )
    context.store.cache_clear()


def judged(store: Store, run: Run) -> int:
    """How many verdicts of one answer the run reached itself, and did not find in the store."""
    store.put_run(run)
    store.put_examples(run.id, {"training": [Example("q", "", "Is it?", "No, it is not.")], "validation": []})
    store.put_plan(run.id, PLAN)
    store.put_shared(run.id, f"answer:{run.id}", {"text": "It is not."})
    store.put_stage(run.id, PLAN.name, "0:pre:answer", {"answers": [{"key": f"answer:{run.id}"}]}, 1)
    attempt = store.begin_attempt(run.id, PLAN.name, lambda failures: [])
    run_stage("judge", (run.id, PLAN.name, 0, "pre", attempt), judge_stage)
    record = store.stage(run.id, PLAN.name, "0:pre:judge")
    assert record is not None
    return int(record["judged"])


@pytest.mark.parametrize(("caches", "second"), [((True, True), 0), ((True, False), 1), ((False, False), 1)])
def test_a_second_run_reaches_its_own_verdicts_only_with_the_cache_off(
    store: Store, run: Run, caches: tuple[bool, bool], second: int
) -> None:
    assert judged(store, dataclasses.replace(run, evaluation_cache=caches[0])) == 1
    assert judged(store, dataclasses.replace(run, id="second", evaluation_cache=caches[1])) == second


def test_a_run_that_is_resumed_takes_its_own_verdicts_with_the_cache_off(store: Store, run: Run) -> None:
    run = dataclasses.replace(run, evaluation_cache=False)
    assert judged(store, run) == 1
    store.forget_plans(run.id, [PLAN.name])
    assert judged(store, run) == 0
