"""A run's tasks with nothing behind them: stages say that they began, wait for leave, and fail when they are told to.

Everything around them is real: messages, workers, claims, records.  A worker imports this module (WHETSTONE_MODULES).
"""

from __future__ import annotations

import dataclasses
import json
import os
import threading
import zlib
from collections.abc import Callable, Mapping
from typing import Any

from celery import shared_task
from simulated_signals import told

from tasks import context
from tasks.models import Answer, Score, Verdict
from tasks.plan import Phase, StageName
from tasks.queues import STAGE_TASKS
from tasks.stage import Stage, StageTask, run_stage

PAUSE_S = 0.02
CLUSTERS = 12


def answers(stage: Stage) -> dict[str, Any]:
    """An answer for each question, in the store as real ones are."""
    listed = []
    for example in context.examples(stage.run.id, stage.candidate.examples):
        key = "answer:" + context.content_hash(stage.deltas(), example.id)
        answer = Answer(example.id, f"It is {example.gold}.", 10, "stop")
        stage.store.put_shared(stage.run.id, key, dataclasses.asdict(answer))
        listed.append({"key": key, "tokens": answer.tokens, "finish": answer.finish})
    return {"answers": listed, "generated": len(listed)}


def verdicts(stage: Stage) -> dict[str, Any]:
    listed = []
    for answer in stage.need("answer")["answers"]:
        key = "verdict:" + context.content_hash(answer["key"])
        stage.store.put_shared(stage.run.id, key, dataclasses.asdict(Verdict(True, 1, 1.0, "text", "as it was told")))
        listed.append({"key": key, "is_correct": True})
    return {"verdicts": listed, "judged": len(listed)}


OUTCOMES: Mapping[StageName, Callable[[Stage], dict[str, Any]]] = {
    "merge": lambda stage: {"scratchpad": "merged"},
    "answer": answers,
    "judge": verdicts,
    "score": lambda stage: dataclasses.asdict(Score(0.5, 0.5, 0.5, 10.0)),
    "reflect": lambda stage: {"delta": 0.25, "scratchpad": "reflected"},
}


def simulate(name: StageName, stage: Stage) -> dict[str, Any]:
    store, pause = stage.store.redis, threading.Event()
    store.incr(told("began", name, stage.node))
    store.sadd(told("by", name, stage.node), os.getpid())
    while store.exists(told("hold", name, stage.node)):
        pause.wait(PAUSE_S)
    if store.exists(told("fail", name, stage.node)):
        raise RuntimeError("as it was told")
    pause.wait(float(store.get(told("seconds", name, "each")) or 0))
    store.incr(told("ended", name, stage.node))
    return OUTCOMES[name](stage)


def define(name: StageName) -> None:
    @shared_task(name=STAGE_TASKS[name], base=StageTask)
    def task(run: str, plan: str, index: int, phase: Phase, attempt: int) -> None:
        run_stage(name, (run, plan, index, phase, attempt), lambda stage: simulate(name, stage))


for stage_name in OUTCOMES:
    define(stage_name)


@shared_task(name="cpu.gather")
def gather(run: str, plan: str, attempt: int) -> None:
    context.store().notify(run)


@shared_task(name="gpu.cluster")
def cluster(run: str) -> str:
    store, clustering = context.store(), context.content_hash("simulated")
    labels = zlib.compress(bytes(CLUSTERS))
    descriptions = [{"id": i, "description": f"cluster {i}"} for i in range(CLUSTERS)]
    store.put_clustering(run, clustering, labels, json.dumps(descriptions))
    store.put_metadata(run, "clustering", clustering)
    store.notify(run)
    return clustering


@shared_task(name="gpu.processor")
def processor(run: str, name: str, deltas: list[float]) -> None:
    context.store().put_file(run, name, json.dumps(deltas).encode())


@shared_task(name="cpu.plot")
def plot(run: str, name: str) -> None:
    context.store().put_file(run, name, b"a picture")
