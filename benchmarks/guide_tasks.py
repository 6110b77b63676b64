"""The target, critic and reflector of a guided run as waiting: each job takes as long as a real one might, divided by
WHETSTONE_SCALE, and answers by its content key.  What the cpu queue finds is computed."""

from __future__ import annotations

import dataclasses
import json
import os
import random
import time
from collections.abc import Mapping
from typing import Any

from celery import shared_task

import tasks.cpu.guide  # noqa: F401  # its tasks are the real ones
from orchestrator.dispatch.scheduler import Request
from tasks.guide.batch import BatchInput, GateInput, decide_gate, find_in_batch
from tasks.job import Job, JobTask, run_job
from tasks.validation import parse_json

SCALE = float(os.environ.get("WHETSTONE_SCALE", "1"))
MEAN_S: Mapping[str, float] = {
    "gpu.rollout": 0.6, "gpu.critique": 1.0, "gpu.propose": 4.0, "gpu.prompt_lengths": 0.0
}  # fmt: skip
GPU_TASKS = tuple(MEAN_S)


def gpu_s(task: str, key: str) -> float:
    """Seconds of a job: half to one and a half of the mean of its kind, and always the same for a key."""
    return MEAN_S.get(task, 0.0) * random.Random(key).uniform(0.5, 1.5)


def result_of(request: Request) -> Mapping[str, Any]:
    """What a worker would reply, at once."""
    spec, arguments = request.spec, json.dumps(request.spec.arguments)
    match spec.task:
        case "cpu.signals":
            found: Any = find_in_batch(parse_json(BatchInput, arguments))
        case "cpu.gate":
            found = decide_gate(parse_json(GateInput, arguments))
        case _:
            return reply_to(spec.task, request.key, spec.arguments)
    made: dict[str, Any] = json.loads(json.dumps(dataclasses.asdict(found)))
    return made


def reply_to(task: str, key: str, arguments: Mapping[str, Any]) -> dict[str, Any]:
    """What a gpu job replies, drawn by its key."""
    draw = random.Random(key)
    if task == "gpu.prompt_lengths":
        return {"tokens": [300] * len(arguments["prompts"]), "context": 8192}
    if task == "gpu.rollout":
        texts = [f"Verdict: {draw.choice(['pass', 'fail'])}\nReason: r\nConfidence: 0.9" for _ in arguments["seeds"]]
        return {"answers": [{"text": text, "tokens": 20, "finish": "stop"} for text in texts], "prompt_tokens": 300}
    operation = {"op": "upsert", "key": None, "text": f"Rule {draw.getrandbits(32)}.", "evidence": ["第1组"]}
    proposal = {"action": "refine", "operations": [operation], "evidence_group_ids": []}
    reply = {"summary": "s", "critique": "c"} if task == "gpu.critique" else proposal
    usage = {"prompt": 300, "cached": 0, "completion": 50, "cost_usd": 0.0}
    return {"text": json.dumps(reply), "finish": "stop", "by": "waiting", "tokens": 50, "usage": usage}


def _define(task: str) -> None:
    def wait(job: Job) -> dict[str, Any]:
        time.sleep(gpu_s(task, job.key) / SCALE)  # the time that is simulated
        return reply_to(task, job.key, job.arguments)

    @shared_task(name=task, base=JobTask)
    def waiting(run: str, key: str, attempt: int) -> None:
        run_job((run, key, attempt), wait)


for _task in GPU_TASKS:
    _define(_task)
