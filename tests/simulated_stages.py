"""Simulated tasks of a run: a stage records its begin, waits while `hold` is set, and fails when `fail` is set.

Messages, workers, locks and records are real.  A worker imports this module (WHETSTONE_MODULES).
"""

from __future__ import annotations

import dataclasses
import json
import math
import time
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

import numpy as np
from celery import shared_task
from celery.signals import worker_init
from redis import Redis
from simulated_run import signal_key

from tasks.objective import score_answers
from tasks.plan import Phase, StageName
from tasks.queues import STAGE_TASKS
from tasks.records import Answer, ClusterFigures, Score, Verdict
from tasks.stage import Stage, StageTask, run_stage
from tasks.store.keys import content_hash
from tasks.task import Job, JobTask, current_store, run_job

PAUSE_S = 0.02
CLUSTERS = 12


def is_set(stage: Stage, what: str) -> bool:
    return bool(stage.store.redis.exists(signal_key(what, "answer", "each")))


def answers(stage: Stage) -> dict[str, Any]:
    """An answer for each question, in the store as real ones are; of the length that `simulated_tokens` says."""
    listed, new, varies, sampling = [], 0, is_set(stage, "vary"), stage.sampling
    for example in stage.examples():
        cap = sampling.max_new_tokens if varies else 10_000
        tokens = simulated_tokens(stage.deltas(), example.id, stage.system_prompt) if varies else 10
        key = "answer:" + content_hash(stage.deltas(), example.id, stage.system_prompt, sampling.seed, cap)
        answer = Answer(example.id, f"It is {example.gold}.", min(tokens, cap), "stop", (), tokens < cap)
        new += not (varies and stage.store.shared(stage.run.id, [key]))
        stage.store.put_shared(stage.run.id, key, dataclasses.asdict(answer))
        known = {"tokens": answer.tokens, "finish": answer.finish, "whole": answer.whole}
        listed.append({"key": key, **known, "loop": False})
    return {"answers": listed, "generated": new}


def simulated_tokens(deltas: Sequence[float], example: str, system_prompt: str = "") -> int:
    """A question has a length of its own; the mean delta, 1 at most, changes it by a factor; "concise" halves it."""
    own = 50 + int(content_hash(example)[:8], 16) % 50
    own = own // 2 if "concise" in system_prompt else own
    return max(1, round(own * math.exp(min(1.0, sum(deltas) / max(1, len(deltas))))))


def needed_tokens(example: str) -> float:
    """How many tokens a right answer has at least: one question in five needs more than the plain model gives."""
    return simulated_tokens((), example) * (int(content_hash(example)[8:16], 16) % 100) / 80


def verdicts(stage: Stage) -> dict[str, Any]:
    """Every answer is right; a judge that is called strict finds the last one wrong, a thorough one those too short."""
    listed, is_thorough, given = [], is_set(stage, "thorough"), stage.need("answer")["answers"]
    for number, answer in enumerate(given, 1):
        is_correct = stage.run.judge.model != "strict" or number < len(given)
        is_correct &= not is_thorough or answer["tokens"] >= needed_tokens(stage.examples()[number - 1].id)
        verdict = Verdict(is_correct, 1, 1.0, "text", f"by {stage.run.judge.model}")
        key = "verdict:" + content_hash(answer["key"], stage.run.judge.model)
        stage.store.put_shared(stage.run.id, key, dataclasses.asdict(verdict))
        listed.append({"key": key, "is_correct": is_correct})
    return {"verdicts": listed, "judged": len(listed), "judge": stage.run.judge.model}


def score(stage: Stage) -> dict[str, Any]:
    """That of the answers where lengths vary; 0.5 or what the test has set, and half of it by a strict judge."""
    if is_set(stage, "vary"):
        lengths = [answer["tokens"] for answer in stage.need("answer")["answers"]]
        return dataclasses.asdict(score_answers(lengths, [True] * len(lengths), stage.run.objective))
    fitness = float(stage.store.redis.get(signal_key("fitness", "score", stage.node)) or 0.5)
    fitness *= 0.5 if stage.need("judge")["judge"] == "strict" else 1.0
    return dataclasses.asdict(Score(fitness, 0.5, 0.5, 10.0))


OUTCOMES: Mapping[StageName, Callable[[Stage], dict[str, Any]]] = {
    "merge": lambda stage: {"scratchpad": "merged"},
    "answer": answers,
    "judge": verdicts,
    "score": score,
    "reflect": lambda stage: {"delta": 0.25, "scratchpad": "reflected"},
}


def simulate(name: str, node: str, store: Redis) -> None:
    """Begin, wait for leave, fail when told to, and end."""
    store.incr(signal_key("began", name, node))
    while store.exists(signal_key("hold", name, node)):
        time.sleep(PAUSE_S)
    if store.exists(signal_key("fail", name, node)):
        raise RuntimeError("as it was told")
    store.incr(signal_key("ended", name, node))


def define_stage(name: StageName) -> None:
    def simulated(stage: Stage) -> dict[str, Any]:
        simulate(name, stage.node, stage.store.redis)
        return OUTCOMES[name](stage)

    @shared_task(name=STAGE_TASKS[name], base=StageTask)
    def task(run: str, plan: str, index: int, phase: Phase, attempt: int) -> None:
        run_stage(name, (run, plan, index, phase, attempt), simulated)


for stage_name in OUTCOMES:
    define_stage(stage_name)


def labelled(name: str, job: Job) -> dict[str, Any]:
    """A job that gives its label back."""
    spec = job.store.job_spec(job.run, job.key)
    assert spec is not None
    simulate(name, spec.label, job.store.redis)
    return {"label": spec.label}


def cluster(job: Job) -> dict[str, Any]:
    # Imported here: of two tasks of one name that are there at the start, Celery takes either.
    from tasks.gpu.cluster import pack_labels

    # Clusters by waste are made of two sides of answers, those by meaning of none.
    store, run, sides = job.store, job.run, job.arguments.get("sides")
    clustering = content_hash("simulated", *([sides] if sides else []))
    log_odds = tuple(0.25 * (i % 5) for i in range(CLUSTERS)) if sides else ()
    labels, ends = (pack_labels(row) for row in (np.arange(CLUSTERS, dtype=np.uint8), np.zeros(CLUSTERS, np.uint8)))
    descriptions = [{"id": i, "count": 1, "description": f"cluster {i}"} for i in range(CLUSTERS)]
    store.clusterings.put(run, clustering, labels, json.dumps(descriptions), ClusterFigures(log_odds=log_odds), ends)
    return {"clustering": clustering}


def write_file(job: Job) -> dict[str, Any]:
    """A processor or a plot."""
    job.store.put_file(job.run, job.key, json.dumps(job.arguments.get("deltas")).encode())
    return {"file": job.arguments["name"]}


def lengths(job: Job) -> dict[str, Any]:
    """A prompt has as many tokens as characters; where no test has set a context, all fit."""
    target = job.arguments["target"]
    context = int(job.store.redis.get(signal_key("context", "lengths", "each")) or 1_000_000)
    limit = context - target["sampling"]["max_new_tokens"]
    texts = {row["id"]: target["system_prompt"] + row["context"] + row["question"] for row in job.arguments["examples"]}
    return {"limit": limit, "lengths": {name: len(text) for name, text in texts.items() if len(text) > limit}}


JOBS: Mapping[str, Callable[[Job], dict[str, Any]]] = {
    "gpu.cluster": cluster,
    "gpu.processor": write_file,
    "cpu.plot": write_file,
    "gpu.identity": lambda job: {
        "server": {"version": (job.store.redis.get(signal_key("version", "server", "identity")) or b"").decode()},
        "template": [],
        "model": {"name": "simulated", "config": "c0", "tokenizer": "70"},
    },
    "gpu.lengths": lengths,
    "openai.compress": partial(labelled, "compress"),
    "openai.verdict": partial(labelled, "verdict"),
}


def define_job(name: str) -> None:
    def task(run: str, key: str, attempt: int) -> None:
        run_job((run, key, attempt), JOBS[name])

    shared_task(name=name, base=JobTask)(task)

    @worker_init.connect(weak=False)
    def take_this_one(sender: Any, **_: Any) -> None:
        # A gpu worker also imports the module of the real gpu.identity; of two tasks of one name Celery takes either.
        sender.app.tasks[name].run = task


for job_name in JOBS:
    define_job(job_name)


@shared_task(name="cpu.gather")
def gather(run: str, plan: str, attempt: int) -> None:
    current_store().notify(run)
