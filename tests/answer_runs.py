"""Runs that only answer questions, and their evaluation through the real answer stage, store and target host."""

import dataclasses
import json
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from simulated_run import RUN

from tasks.gpu.answer import answer_stage
from tasks.gpu.cluster import pack_labels
from tasks.gpu.clustering.vocabulary import sentence_ends
from tasks.gpu.host import TargetHost
from tasks.plan import Candidate, Plan
from tasks.records import Example, Target
from tasks.stage import run_stage
from tasks.store.keys import content_hash
from tasks.store.store import Store
from tasks.task import current_store


class Evaluation(NamedTuple):
    """What an individual's stage recorded: its answers in the order of the questions, and how many were generated."""

    answers: list[dict[str, Any]]
    keys: list[str]
    generated: int

    @property
    def texts(self) -> list[str]:
        return [str(answer["text"]) for answer in self.answers]


@contextmanager
def own_store() -> Iterator[None]:
    """Inside the block the tasks of this process use a store of their own."""
    current_store.cache_clear()
    try:
        yield
    finally:
        current_store.cache_clear()


def put_run(
    store: Store, name: str, target: Target, labels: np.ndarray, questions: Sequence[str], cache: bool = True
) -> None:
    """Store a run with these questions and the cluster of each token."""
    run = dataclasses.replace(RUN, id=name, target=target, evaluation_cache=cache)
    clustering = content_hash(labels.tolist())[:32]
    examples = [Example(str(n), text, "?", "") for n, text in enumerate(questions)]
    store.put_run(run)
    store.put_examples(name, {"training": examples, "validation": []})
    described = [{"id": n, "description": str(n)} for n in range(int(labels.max()) + 1)]
    packed, ends = pack_labels(labels.astype(np.uint8)), pack_labels(sentence_ends(target.model))
    store.clusterings.put(name, clustering, packed, json.dumps(described), ends=ends)
    store.put_metadata(name, "clustering", clustering)


def evaluate(host: TargetHost, store: Store, run: str, individuals: Sequence[Sequence[float]]) -> list[Evaluation]:
    """Evaluate individuals with these deltas, all at the same time."""
    plan = Plan("population", 0, tuple(Candidate(n, tuple(deltas)) for n, deltas in enumerate(individuals)))
    store.put_plan(run, plan)
    attempt = store.next_attempt(run, plan.name)

    def evaluated(index: int) -> Evaluation:
        run_stage("answer", (run, plan.name, index, "pre", attempt), lambda stage: answer_stage(stage, host))
        record = store.stage(run, plan.name, f"{index}:pre:answer")
        assert record is not None
        keys = [answer["key"] for answer in record["answers"]]
        found = store.shared(run, keys)
        return Evaluation([found[key] for key in keys], keys, record["generated"])

    with ThreadPoolExecutor(len(individuals)) as slots:
        return list(slots.map(evaluated, range(len(individuals))))


def embedded_target(model: Path, **changes: Any) -> Target:
    """The embedded server of a model folder, greedy, with short answers."""
    from server_target import server_target

    target = server_target()
    sampling = dataclasses.replace(target.sampling, max_new_tokens=8)
    changed = {"engine": "embedded", "model": str(model), "request_timeout_s": 120, "ready_timeout_s": 120}
    return dataclasses.replace(target, **{**changed, "concurrency": 4, "sampling": sampling, **changes})
