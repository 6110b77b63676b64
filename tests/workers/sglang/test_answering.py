"""The answer stage on a server that is started, killed and restarted: real tasks, host, store and HTTP."""

import dataclasses
import json
import os
import shlex
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from itertools import count
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from farm_bench import Bench
from server_target import TINY_SERVER, server_target

from tasks import context
from tasks.context import content_hash
from tasks.gpu import host as installed
from tasks.gpu.answer import answer_stage
from tasks.gpu.cluster import pack_labels
from tasks.models import Clusters, Endpoint, Example, Fitness, Judge, Reflector, Run
from tasks.plan import Candidate, Plan
from tasks.stage import run_stage
from tasks.store.address import ENVIRONMENT_VARIABLE, store_url
from tasks.store.client import connect
from tasks.store.store import Store
from workers.embedded.models import embedded_model
from workers.sglang.host import LocalTargetHost

QUESTIONS = 8
CLUSTERS = 3


@pytest.fixture
def store(bench: Bench, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Store]:
    """The store and the target host of this process, for its tasks."""
    monkeypatch.setenv(ENVIRONMENT_VARIABLE, bench.url)
    context.store.cache_clear()
    host = LocalTargetHost(tmp_path / "host", "gpu", {**os.environ, "PYTHONPATH": ""})
    installed.install(host)
    yield Store(connect(store_url(bench.url)))
    installed.install(None)
    host.close()
    context.store.cache_clear()


def put_run(store: Store, run_id: str = "run", cache: bool = True, **target: Any) -> None:
    changed = {"model": str(embedded_model()), "concurrency": 4, "request_timeout_s": 20, **target}
    run = Run(
        run_id, 1, dataclasses.replace(server_target(), **changed), Judge("m", 0.01, True, 0, 1, 1, 1, 1),
        Reflector("m", 0, 1, 1, 1), Endpoint("", "K", 1, 1, 1, 1, 0, 0, 0, 0), Fitness(0.4, 0.6, 50),
        Clusters("", "m", 1, 1, 1, 1, "cpu"), evaluation_cache=cache,
    )  # fmt: skip
    found = np.arange(50) % CLUSTERS
    clustering = content_hash(found.tolist())[:32]
    asked = [Example(str(n), "word " * n, "?", "") for n in range(QUESTIONS)]
    store.put_run(run)
    store.put_examples(run_id, {"training": asked, "validation": []})
    described = [{"id": n, "description": str(n)} for n in range(CLUSTERS)]
    store.put_clustering(run_id, clustering, pack_labels(found), json.dumps(described))
    store.put_metadata(run_id, "clustering", clustering)


def evaluate(store: Store, individuals: int, run_id: str = "run") -> list[Sequence[Mapping[str, Any]]]:
    """The stored answers of each individual, all of them evaluated at the same time."""
    records = evaluation_records(store, individuals, run_id)
    keys = [[answer["key"] for answer in record["answers"]] for record in records]
    return [[store.shared(run_id, one)[key] for key in one] for one in keys]


def evaluation_records(store: Store, individuals: int, run_id: str = "run") -> list[Mapping[str, Any]]:
    """The record that the answer stage of each individual leaves."""
    plan = Plan("g0_pop", 0, tuple(Candidate(n, (float(n),) * CLUSTERS) for n in range(individuals)))
    store.put_plan(run_id, plan)
    attempt = store.next_attempt(run_id, plan.name)
    with ThreadPoolExecutor(individuals) as slots:
        tasks = [
            slots.submit(run_stage, "answer", (run_id, plan.name, n, "pre", attempt), answer_stage)
            for n in range(individuals)
        ]
        for task in tasks:
            task.result()
    records = [store.stage(run_id, plan.name, f"{n}:pre:answer") for n in range(individuals)]
    return [record for record in records if record is not None]


def servers_of(answers: Sequence[Mapping[str, Any]]) -> set[str]:
    """The pids of the servers that gave these answers."""
    return {str(answer["text"]).split()[1] for answer in answers}


def test_answers_are_kept_when_the_server_dies_in_the_middle_of_a_batch(store: Store, tmp_path: Path) -> None:
    # Given a server that exits after three answers
    put_run(store, command=f"{TINY_SERVER} --die-once {shlex.quote(str(tmp_path / 'died'))}")
    # When two individuals are evaluated on it
    answers = evaluate(store, 2)
    # Then a second server gave the rest, and each question has one answer, counted once
    together = [answer for individual in answers for answer in individual]
    assert (tmp_path / "died").exists()
    assert len(together) == 2 * QUESTIONS
    assert len(servers_of(together)) == 2
    assert store.usage("run")["target"] == sum(answer["tokens"] for answer in together) == 2 * QUESTIONS


def test_a_resident_server_answers_for_all_individuals(store: Store) -> None:
    put_run(store)
    first, second = evaluate(store, 2)
    assert servers_of(first) == servers_of(second) and len(servers_of(first)) == 1


def test_with_restart_each_individual_has_its_own_server(store: Store) -> None:
    # Given tasks that run at the same time with the lifecycle "restart"
    put_run(store, lifecycle="restart")
    first, second, third = evaluate(store, 3)
    # Then each has a server of its own, and the processor of the last one is in the store
    assert [len(servers_of(one)) for one in (first, second, third)] == [1, 1, 1]
    assert len(servers_of(first) | servers_of(second) | servers_of(third)) == 3
    assert b"class DeltaProcessor" in (store.file("run", "processor.py") or b"")


@pytest.mark.parametrize(("cache", "generated"), [(True, 0), (False, QUESTIONS)])
def test_a_second_run_generates_its_own_answers_only_with_the_cache_off(
    store: Store, cache: bool, generated: int
) -> None:
    put_run(store, "first")
    put_run(store, "second", cache)
    [first], [second] = evaluation_records(store, 1, "first"), evaluation_records(store, 1, "second")
    assert (first["generated"], second["generated"]) == (QUESTIONS, generated)


def test_a_run_that_is_resumed_repeats_nothing_with_the_cache_off(store: Store) -> None:
    put_run(store, cache=False)
    [before] = evaluation_records(store, 1)
    store.forget_plans("run", ["g0_pop"])
    [after] = evaluation_records(store, 1)
    assert (before["generated"], after["generated"]) == (QUESTIONS, 0)
    assert before["answers"] == after["answers"]


def test_an_answer_that_was_evicted_is_generated_again(store: Store) -> None:
    # Given a run that has recorded its generation, so that its answers may be evicted
    put_run(store)
    [before] = evaluation_records(store, 1)
    store.forget_plans("run", ["g0_pop"])
    store.release_shared("run")
    # When the server needs their memory
    used = int(store.redis.info("memory")["used_memory"])
    store.redis.config_set("maxmemory", used + 2_000_000)
    for number in count():
        store.put_shared("other", f"answer:{number}", {"text": "x" * 100_000})
        store.release_shared("other")
        if not store.redis.exists(*(f"whetstone:{answer['key']}" for answer in before["answers"])):
            break
    store.redis.config_set("maxmemory", 0)
    # Then the run generates them again
    [after] = evaluation_records(store, 1)
    assert (before["generated"], after["generated"]) == (QUESTIONS, QUESTIONS)
    assert before["answers"] == after["answers"]
