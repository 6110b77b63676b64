"""The five stages with nothing behind them: they say that they began, wait for leave, and fail when they are told to.

Everything around them is real: messages, workers, claims, records.  A worker imports this module (WHETSTONE_MODULES).
"""

from __future__ import annotations

import dataclasses
import os
import threading
from collections.abc import Mapping
from typing import Any

from celery import shared_task
from simulated_signals import told

from tasks.plan import QUEUE_OF, Phase, StageName
from tasks.records import Score
from tasks.stage import Stage, StageTask, run_stage

PAUSE_S = 0.02
OUTCOMES: Mapping[StageName, dict[str, Any]] = {
    "merge": {"scratchpad": "merged"},
    "answer": {"answers": []},
    "judge": {"verdicts": []},
    "score": dataclasses.asdict(Score(0.5, 0.5, 0.5, 10.0)),
    "reflect": {"delta": 0.25, "scratchpad": "reflected"},
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
    return OUTCOMES[name]


def define(name: StageName) -> None:
    @shared_task(name=f"{QUEUE_OF[name]}.{name}", base=StageTask)
    def task(run: str, plan: str, index: int, phase: Phase, dispatch: int) -> None:
        run_stage(name, (run, plan, index, phase, dispatch), lambda stage: simulate(name, stage))


for stage_name in OUTCOMES:
    define(stage_name)


@shared_task(name="cpu.gather")
def gather(run: str, plan: str, dispatch: int) -> None:
    from tasks import context

    context.store().wake(run)
