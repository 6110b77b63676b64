"""A target that is served by tiny_server.py or by the embedded server, and runs that only answer questions on it."""

from __future__ import annotations

import dataclasses
import json
import sys
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import httpx
import numpy as np
import psutil
from simulated_run import RUN

from tasks.common.files import unix_path
from tasks.common.http import http_url
from tasks.gpu.answer import answer_stage
from tasks.gpu.cluster import pack_labels
from tasks.gpu.clustering.vocabulary import sentence_ends
from tasks.gpu.host import TargetHost
from tasks.plan import Candidate, Plan
from tasks.records import Example, Sampling, Target
from tasks.stage import run_stage
from tasks.store.keys import content_hash
from tasks.store.store import Store
from tasks.task import current_store
from workers.sglang.host import LocalTargetHost

TINY_SERVER = f"{sys.executable} {Path(__file__).with_name('tiny_server.py')}"


def server_reply(host: TargetHost, target: Target, path: str = "/server_info") -> dict[str, object]:
    """The server's reply to a GET request with its key, as JSON."""
    http = http_client(host.serve(target))
    answer: dict[str, object] = http.get(path, headers={"Authorization": f"Bearer {host.api_key(target)}"}).json()
    return answer


def server_process(host: LocalTargetHost) -> psutil.Process:
    """The process of the server that this host has started: what it was started with, and whether it was replaced."""
    server = host._server
    assert server is not None and server._process is not None and server._process.pid is not None
    return psutil.Process(server._process.pid)


def http_client(url: str, timeout: float = 5.0) -> httpx.Client:
    """A client for a server at a port or on a Unix socket."""
    path = unix_path(url)
    transport = httpx.HTTPTransport(uds=path) if path else None
    return httpx.Client(base_url=http_url(url, ""), transport=transport, trust_env=False, timeout=timeout)


def server_target(command: str = TINY_SERVER, args: str = "", url: str = "", ready_timeout_s: float = 30) -> Target:
    return dataclasses.replace(
        RUN.target, command=command, args=args, url=url, ready_timeout_s=ready_timeout_s, model="some/model",
        engine="sglang", request_timeout_s=10, prompt_template="{context}{query}", sampling=Sampling(8, 0.0, 1.0, 0),
    )  # fmt: skip


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


def store_run(
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
    target = server_target()
    sampling = dataclasses.replace(target.sampling, max_new_tokens=8)
    changed = {"engine": "embedded", "model": str(model), "request_timeout_s": 120, "ready_timeout_s": 120}
    return dataclasses.replace(target, **{**changed, "concurrency": 4, "sampling": sampling, **changes})
