"""Sampling a run from outside: requests in flight, pending evaluations, and the GPU's utilization."""

from __future__ import annotations

import contextlib
import subprocess
import threading
import time
from dataclasses import dataclass
from types import TracebackType
from typing import Any

import httpx
import redis

from tasks.plan import Plan, stage_refs
from tasks.store.keys import CLUSTERING, JOBS, plan_key
from tasks.store.store import Store

PERIOD_S = 0.1
GPU_QUERY = "--query-gpu=utilization.gpu,memory.used"
GPU_PERIOD_MS = 200


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
