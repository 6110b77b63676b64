"""The gpu jobs of `orchestrator route` as waiting: each takes as long as a real one might, divided by WHETSTONE_SCALE,
and ends with the checkpoint or the samples that a report needs.  What the cpu queue does is computed."""

from __future__ import annotations

import hashlib
import json
import os
import random
import time
from collections.abc import Callable, Mapping
from typing import Any

from celery import shared_task

import tasks.cpu.compare
import tasks.cpu.plot
import tasks.cpu.pool  # noqa: F401  # the tasks of the cpu queue are the real ones
from tasks.gpu.training.start import progress_field
from tasks.job import Job, JobTask, run_job
from tasks.store.keys import PROGRESS
from tasks.task import raise_if_cancelled

SCALE = float(os.environ.get("WHETSTONE_SCALE", "1"))
BASES_S = 20.0
STEP_S = 8.4  # of 64 rows with ten splits, as measured (docs/route_results.md)
BATCH_S, BATCH_ROWS = 3.4, 512  # of an evaluation, as measured (docs/route_results.md)
START_S = 10.0  # of each child: Python, torch, and the model


def train_s(steps: int) -> float:
    """Seconds of one trajectory."""
    return START_S + steps * STEP_S


def evaluate_s(evaluations: int, samples: int) -> float:
    """Seconds of all that is evaluated of one trajectory."""
    return START_S + evaluations * samples * BATCH_S / BATCH_ROWS


def bases(job: Job) -> dict[str, Any]:
    _wait(BASES_S)
    return {"weights": "0" * 64, "modules": 2, "knobs": 2, "largest_error": 0.0, "computed": 2}


def train(job: Job) -> dict[str, Any]:
    training, rows, data = job.arguments["inputs"]["training"], [], b""
    _wait(START_S)
    for step in range(training["steps"]):
        _wait(STEP_S)
        raise_if_cancelled(job.store, job.run)
        rows.append({"step": step, "events": [], "splits": {}, "log": []})
        done = len(rows)
        if done % training["checkpoint_every"] == 0 or done == training["steps"]:
            data = f"{job.key} step {done}".encode()
            job.store.put_checkpoint(job.run, job.arguments["checkpoint"], data)
        said = json.dumps({"stage": "train", "done": done, "total": training["steps"], "job": job.key})
        job.store.put_metadata(job.run, PROGRESS, said)
        job.store.put_metadata(job.run, progress_field(job.key), said)
    return {"rows": rows, "sha256": hashlib.sha256(data).hexdigest(), "checkpoint": job.arguments["checkpoint"]}


def evaluate(job: Job) -> dict[str, Any]:
    """Samples that are right, or pass without it, as drawn by each evaluation's key."""
    asked, samples = job.arguments["evaluations"], job.arguments["inputs"]["evaluation"]["samples"]
    _wait(evaluate_s(len(asked), samples))
    drawn = [random.Random(each["key"]).choices(("10", "01", "00"), k=samples) for each in asked]
    return {
        "evaluations": [{"solved": "".join(d[0] for d in one), "hacked": "".join(d[1] for d in one)} for one in drawn]
    }


def _wait(seconds: float) -> None:
    time.sleep(seconds / SCALE)  # the time that is simulated


def _define(task: str, work: Callable[[Job], Mapping[str, Any]]) -> None:
    @shared_task(name=task, base=JobTask)
    def waiting(run: str, key: str, attempt: int) -> None:
        run_job((run, key, attempt), work)


_define("gpu.bases", bases)
_define("gpu.train", train)
_define("gpu.evaluate", evaluate)
