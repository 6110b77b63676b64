"""A task that fails leaves its failure where whoever waits for it looks."""

from __future__ import annotations

import time

import pytest

from tasks import context
from tasks.cpu.score import score_task
from tasks.cpu.tokenize import tokenize_task
from tasks.store.address import ENVIRONMENT_VARIABLE
from tasks.store.store import Store
from tasks.task import FarmTask


@pytest.fixture(autouse=True)
def store_of_the_tasks(store: Store, valkey_url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(ENVIRONMENT_VARIABLE, valkey_url)
    context.store.cache_clear()


def test_a_stage_s_failure_belongs_to_its_candidate_in_the_plan(store: Store) -> None:
    score_task.on_failure(ValueError("no answers"), "some-id", ("run", "g0_pop", 2, "pre", 7), {}, None)

    failure = store.stages("run", "g0_pop")["2:failed"]
    assert time.time() - failure.pop("at") < 60
    assert failure == {
        "stage": "score",
        "phase": "pre",
        "attempt": 7,
        "name": "cpu.score",
        "task": "some-id",
        "error": "ValueError: no answers",
        "tries": 1,
    }


def test_failures_of_one_stage_are_counted_over_all_attempts(store: Store) -> None:
    for attempt in (7, 8, 9):
        score_task.on_failure(ValueError(), f"task-{attempt}", ("run", "g0_pop", 2, "pre", attempt), {}, None)
    assert store.stages("run", "g0_pop")["2:failed"]["tries"] == 3


def test_a_job_s_failure_belongs_to_its_sample(store: Store) -> None:
    tokenize_task.on_failure(ValueError("no text"), "some-id", ("run", 3, 1, 7), {}, None)

    record = store.stages("run", "phase0")["cpu.tokenize:3:1:failed"]
    assert (record["name"], record["index"], record["sample"], record["attempt"]) == ("cpu.tokenize", 3, 1, 7)


def test_every_task_whose_worker_dies_is_tried_a_few_times() -> None:
    assert isinstance(score_task._get_current_object(), FarmTask)
    assert (score_task.max_retries, tokenize_task.max_retries) == (5, 5)
