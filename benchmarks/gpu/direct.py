"""The requests of a run: sampled from outside while it lasts, and afterwards sent directly to the server.

A direct request goes out from one of a few processes that do nothing else, without farm and store.
"""

from __future__ import annotations

import contextlib
import multiprocessing
import subprocess
import threading
import time
from collections.abc import Sequence
from dataclasses import dataclass
from types import TracebackType
from typing import Any

import httpx
import redis

from tasks.gpu.answer import prompt_batch, requests_for
from tasks.gpu.target import Generated, GenerateRequest, TargetClient
from tasks.plan import Plan, stage_refs
from tasks.stage import Stage
from tasks.store.keys import CLUSTERING, JOBS, content_hash, plan_key
from tasks.store.store import Store

PERIOD_S = 0.1
GPU_QUERY = "--query-gpu=utilization.gpu,memory.used"
GPU_PERIOD_MS = 200
PROCESSES = 4
START_S = 120.0


@dataclass(frozen=True)
class Sample:
    """One moment. `at` in seconds of the monotonic clock; `pending` counts individuals whose next stage is to answer;
    `utilization` in percent and `memory` in MiB are the GPU's own, None where there is none."""

    at: float
    in_flight: int
    pending: int
    utilization: float | None
    memory: float | None


class Gpu:
    """The output of nvidia-smi for the first GPU, read continuously."""

    def __init__(self) -> None:
        self.now: tuple[float | None, float | None] = (None, None)
        command = ["nvidia-smi", "-i", "0", GPU_QUERY, "--format=csv,noheader,nounits", "-lms", str(GPU_PERIOD_MS)]
        self._process: subprocess.Popen[str] | None = None
        with contextlib.suppress(OSError):
            self._process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
            threading.Thread(target=self._read, name="nvidia-smi", daemon=True).start()

    def _read(self) -> None:
        assert self._process is not None and self._process.stdout is not None
        for line in self._process.stdout:
            with contextlib.suppress(ValueError):
                busy, memory = line.split(",")
                self.now = (float(busy), float(memory))

    def close(self) -> None:
        if self._process is not None:
            self._process.terminate()
            self._process.wait()


class Watching:
    """Samples while the block runs.  `ended` is the last stage's end.

    `began` is when the first evaluation after the vocabulary's clustering is pending: earlier ones are of prompts.
    """

    def __init__(self, store: Store, http: httpx.Client) -> None:
        self.samples: list[Sample] = []
        self.began = self.ended = 0.0
        self.tokens = 0
        self._store = store
        self._http = http
        self._records: dict[str, dict[str, Any]] = {}
        self._plans: dict[str, Plan] = {}
        self._run = ""
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._watch, name="watching", daemon=True)

    def __enter__(self) -> Watching:
        self._gpu = Gpu()
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stopping.set()
        self._thread.join()
        self._gpu.close()
        self.tokens = int(self._store.usage(self._run).get("target", 0))

    def _watch(self) -> None:
        while not self._stopping.wait(PERIOD_S):
            with contextlib.suppress(httpx.HTTPError, redis.RedisError):
                pending = self._pending()
                self.samples.append(Sample(time.monotonic(), self._in_flight(), pending, *self._gpu.now))

    def _in_flight(self) -> int:
        """Requests in the server, running or waiting."""
        answer = self._http.get("/v1/loads", params={"include": "core"})
        loads = answer.json()["loads"] if answer.status_code == 200 else [self._http.get("/server_info").json()]
        return sum(int(load["num_running_reqs"]) + int(load["num_waiting_reqs"]) for load in loads)

    def _pending(self) -> int:
        """Individuals whose next stage is to answer: queued, or being answered."""
        self._run = self._run or next(iter(self._store.run_ids()), "")
        pending = 0
        for name in self._plan_names():
            known = self._records.setdefault(name, {})
            new = self._store.stages(self._run, name, known)
            known.update(new)
            if new:
                self.ended = time.monotonic()
            plan = self._plans[name]
            open_steps = (next((s for s in stage_refs(m) if s.field not in known), None) for m in plan.candidates)
            pending += sum(1 for step in open_steps if step is not None and step.stage == "answer")
        if pending and not self.began and self._store.metadata(self._run, CLUSTERING):
            self.began = time.monotonic()
        return pending

    def _plan_names(self) -> list[str]:
        """The plans that are not finished yet."""
        if not self._run:
            return []
        prefix = plan_key(self._run, "")
        for key in self._store.redis.scan_iter(match=prefix + "*", count=1000):
            name = key.decode().removeprefix(prefix)
            if name not in self._plans and name != JOBS:
                self._plans[name] = self._store.plan(self._run, name)
        return [
            name
            for name, plan in self._plans.items()
            if any(s.field not in self._records.get(name, {}) for m in plan.candidates for s in stage_refs(m))
        ]


@dataclass(frozen=True)
class DirectResult:
    """`seconds` from the first request to the last answer; `tokens` generated, without stop tokens.

    At most `in_flight` requests were sent at once.  `steady` is the rate in tokens a second while all of them were:
    from the answer of that number on, until no request was left to send; None for too few requests.
    """

    in_flight: int
    seconds: float
    tokens: int
    steady: float | None


def requests_of(store: Store, model: str) -> list[GenerateRequest]:
    """Each request whose answer a run has, once, in the order of its plans; none before the clustering is there."""
    [run_id] = store.run_ids()
    run, clustering = store.run(run_id), store.metadata(run_id, "clustering")
    if clustering is None:
        return []
    examples = store.examples(run_id)
    found: dict[str, GenerateRequest] = {}
    for plan in plans_of(store, run_id):
        answered = store.stages(run_id, plan.name)
        for candidate in plan.candidates:
            texts = tuple((e.id, e.context, e.question) for e in examples[candidate.examples])
            for step in stage_refs(candidate):
                stage = Stage(store, run, plan, candidate, step.phase, 0)
                if step.stage != "answer" or answered.get(step.field, {"skipped": True}).get("skipped"):
                    continue
                deltas = stage.deltas()
                batch = prompt_batch(model, stage.system_prompt, run.target.prompt_template, texts)
                positions = range(len(batch.ids))
                for request in requests_for(run.target.sampling, clustering, deltas, batch, positions).values():
                    found.setdefault(content_hash(list(request.input_ids), list(deltas)), request)
    return list(found.values())


def plans_of(store: Store, run_id: str) -> list[Plan]:
    prefix = plan_key(run_id, "")
    names = [key.decode().removeprefix(prefix) for key in store.redis.scan_iter(match=prefix + "*", count=1000)]
    return sorted(
        (store.plan(run_id, name) for name in names if name != JOBS),
        key=lambda plan: (plan.generation, plan.purpose != "population"),
    )


def drive(url: str, api_key: str | None, requests: Sequence[GenerateRequest], in_flight: int) -> DirectResult:
    """Send all requests, each process an equal share, `in_flight` at once in all processes together."""
    context = multiprocessing.get_context("spawn")
    ready, results = context.Barrier(PROCESSES + 1), context.SimpleQueue()
    shares = [list(requests[n::PROCESSES]) for n in range(PROCESSES)]
    senders = [
        context.Process(target=_send, args=(url, api_key, share, in_flight // PROCESSES, ready, results), daemon=True)
        for share in shares
    ]
    for sender in senders:
        sender.start()
    ready.wait(START_S)
    started = time.perf_counter()
    answers = sorted(answer for _ in senders for answer in results.get())
    seconds = time.perf_counter() - started
    for sender in senders:
        sender.join()
    return DirectResult(in_flight, seconds, sum(tokens for _, tokens in answers), steady_rate(answers, in_flight))


def steady_rate(answers: Sequence[tuple[float, int]], in_flight: int) -> float | None:
    """Tokens a second of answers (time of its end, tokens), in their order, without the first and last `in_flight`."""
    full = answers[in_flight - 1 : len(answers) - in_flight]
    if len(full) <= in_flight:
        return None
    return sum(tokens for _, tokens in full[1:]) / (full[-1][0] - full[0][0])


def _send(
    url: str, api_key: str | None, requests: list[GenerateRequest], in_flight: int, ready: Any, results: Any
) -> None:
    answers: list[tuple[float, int]] = []

    def count(index: int, generated: Generated) -> None:
        answers.append((time.perf_counter(), generated.completion_tokens))

    client = TargetClient(url, timeout_s=600, concurrency=in_flight, api_key=api_key)
    ready.wait(START_S)
    client.generate_many(requests, count)
    results.put(answers)
