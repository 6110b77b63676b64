"""A task that fails leaves its failure where its run looks."""

from __future__ import annotations

import dataclasses
import time

import pytest
from celery import Celery
from celery.exceptions import Reject

from tasks.collect.tokens import tokenize_task
from tasks.cpu.score import score_task
from tasks.records import Failure, JobSpec
from tasks.store.address import ENVIRONMENT_VARIABLE
from tasks.store.store import Store
from tasks.task import FarmTask, GiveBack, current_store

KEY = "tokenized:" + "0" * 64


@pytest.fixture(autouse=True)
def store_of_the_tasks(store: Store, valkey_url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(ENVIRONMENT_VARIABLE, valkey_url)
    current_store.cache_clear()


def test_a_stage_s_failure_is_recorded_for_its_candidate_and_a_job_s_under_its_key(store: Store) -> None:
    store.put_job("run", KEY, JobSpec("cpu.tokenize", "sample_id_3/0", {}))
    score_task.on_failure(ValueError("no answers"), "some-id", ("run", "g0_pop", 2, "pre", 7), {}, None)
    tokenize_task.on_failure(ValueError("no text"), "other-id", ("run", KEY, 7), {}, None)
    found = store.failures("run")
    assert all(time.time() - failure.at < 60 for failure in found)
    assert [dataclasses.replace(failure, at=0) for failure in found] == [
        Failure("run", "g0_pop", "2", "g0_pop2", "score", "ValueError: no answers", "some-id", 1, 0, 7),
        Failure("run", "jobs", KEY, "sample_id_3/0", "tokenize", "ValueError: no text", "other-id", 1, 0, 7),
    ]


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
