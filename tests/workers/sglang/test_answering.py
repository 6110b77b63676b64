"""The answer stage on a server that is started, killed and restarted: real tasks, host, store and HTTP."""

import dataclasses
import os
import shlex
from collections.abc import Iterator, Sequence
from itertools import count
from pathlib import Path
from typing import Any

import answer_runs
import numpy as np
import pytest
from answer_runs import Evaluation, own_store
from server_target import TINY_SERVER, server_target

from tasks.store.store import Store
from workers.embedded.models import embedded_model
from workers.sglang.host import LocalTargetHost

QUESTIONS = 8
CLUSTERS = 3


@pytest.fixture(autouse=True)
def host(store: Store, tmp_path: Path) -> Iterator[LocalTargetHost]:
    """The target host of this process, for its tasks."""
    host = LocalTargetHost(tmp_path / "host", "gpu", {**os.environ, "PYTHONPATH": ""})
    with own_store():
        yield host
    host.close()


def put_run(store: Store, run_id: str = "run", cache: bool = True, **target: Any) -> None:
    changed = {"model": str(embedded_model()), "concurrency": 4, "request_timeout_s": 20, **target}
    questions = ["word " * n for n in range(QUESTIONS)]
    served = dataclasses.replace(server_target(), **changed)
    answer_runs.put_run(store, run_id, served, np.arange(50) % CLUSTERS, questions, cache)


def evaluate(host: LocalTargetHost, store: Store, individuals: int, run_id: str = "run") -> list[Evaluation]:
    return answer_runs.evaluate(host, store, run_id, [[float(n)] * CLUSTERS for n in range(individuals)])


def servers_of(evaluation: Evaluation | Sequence[str]) -> set[str]:
    """The pids of the servers that gave these answers."""
    return {text.split()[1] for text in (evaluation.texts if isinstance(evaluation, Evaluation) else evaluation)}


def test_answers_are_kept_when_the_server_dies_in_the_middle_of_a_batch(
    host: LocalTargetHost, store: Store, tmp_path: Path
) -> None:
    # Given a server that exits after three answers
    put_run(store, command=f"{TINY_SERVER} --die-once {shlex.quote(str(tmp_path / 'died'))}")
    # When two individuals are evaluated on it
    evaluations = evaluate(host, store, 2)
    # Then a second server gave the rest, and each question has one answer, counted once
    together = [answer for evaluation in evaluations for answer in evaluation.answers]
    assert (tmp_path / "died").exists()
    assert len(together) == 2 * QUESTIONS
    assert len(servers_of([str(answer["text"]) for answer in together])) == 2
    assert store.usage("run")["target"] == sum(answer["tokens"] for answer in together) == 2 * QUESTIONS


def test_with_restart_each_individual_has_its_own_server(host: LocalTargetHost, store: Store, tmp_path: Path) -> None:
    # Given tasks that run at the same time with the lifecycle "restart"
    put_run(store, lifecycle="restart")
    first, second, third = evaluate(host, store, 3)
    # Then each has a server of its own, and the processor of the last one is in the worker's folder
    assert [len(servers_of(one)) for one in (first, second, third)] == [1, 1, 1]
    assert len(servers_of(first) | servers_of(second) | servers_of(third)) == 3
    [file] = (tmp_path / "host" / "processors-gpu").rglob("processor.py")
    assert "class DeltaProcessor" in file.read_text()
    # And the run's own file of that name, which the driver requests, is left alone
    assert store.file("run", "processor.py") is None


def test_an_answer_that_was_evicted_is_generated_again(host: LocalTargetHost, store: Store) -> None:
    # Given a run that has recorded its generation, so that its answers may be evicted
    put_run(store)
    [before] = evaluate(host, store, 1)
    store.forget_plans("run", ["g0_pop"])
    store.release_shared("run")
    # When the server needs their memory
    used = int(store.redis.info("memory")["used_memory"])
    store.redis.config_set("maxmemory", used + 2_000_000)
    for number in count():
        store.put_shared("other", f"answer:{number}", {"text": "x" * 100_000})
        store.release_shared("other")
        if not store.redis.exists(*(f"whetstone:{key}" for key in before.keys)):
            break
    store.redis.config_set("maxmemory", 0)
    # Then the run generates them again
    [after] = evaluate(host, store, 1)
    assert (before.generated, after.generated) == (QUESTIONS, QUESTIONS)
    assert (before.keys, before.answers) == (after.keys, after.answers)
