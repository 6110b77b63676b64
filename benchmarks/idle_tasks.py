"""The farm's stages without work, and the same as bare Celery tasks.

With WHETSTONE_SCALE a stage waits as long as the real one would take, divided by that number.
"""

from __future__ import annotations

import os
import time
from collections.abc import Mapping
from typing import Any

from celery import shared_task

from tasks.plan import Phase, StageName
from tasks.queues import STAGE_TASKS, queue_of
from tasks.stage import Stage, StageTask, run_stage
from tasks.task import store_of

# Of a training set on one GPU and of calls to a large model; scoring is arithmetic.
SECONDS: Mapping[StageName, float] = {"answer": 10.0, "judge": 3.0, "score": 0.0, "reflect": 8.0, "merge": 3.0}
SCALE = float(os.environ.get("WHETSTONE_SCALE", "inf"))
SCORE = {"fitness": 0.5, "shortness": 0.5, "correctness": 0.5, "mean_tokens": 1.0}


def _define(stage: StageName, task: str) -> None:
    def wait(at_work: Stage) -> dict[str, Any]:
        time.sleep(SECONDS[stage] / SCALE)  # the time that is simulated
        return {**SCORE, "generated": 1, "delta": 1.0, "scratchpad": ""}

    @shared_task(name=task, base=StageTask)
    def of_the_farm(run: str, plan: str, index: int, phase: Phase, attempt: int) -> None:
        run_stage(stage, (run, plan, index, phase, attempt), wait)

    @shared_task(name=f"{queue_of(task)}.bare_{stage}", ignore_result=True)
    def bare(run: str, plan: str, index: int, phase: Phase, attempt: int) -> None:
        return None


for _stage, _task in STAGE_TASKS.items():
    _define(_stage, _task)


@shared_task(name="cpu.gather")
def gather(run: str, plan: str, attempt: int) -> None:
    store_of(run).notify(run)


@shared_task(name="cpu.bare_gather")
def bare_gather(run: str, plan: str, attempt: int) -> None:
    return None
