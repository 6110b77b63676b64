"""The two cpu tasks of a plan: the score of an evaluation, and the end of the plan's chord."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

from celery import shared_task

from tasks.objective import score_answers
from tasks.plan import Phase
from tasks.stage import Stage, StageTask, run_stage
from tasks.task import store_of


def score_stage(stage: Stage) -> dict[str, Any]:
    answers = stage.need("answer")["answers"]
    verdicts = stage.need("judge")["verdicts"]
    correct = [v["is_correct"] and a["whole"] for a, v in zip(answers, verdicts, strict=True)]
    return asdict(score_answers([answer["tokens"] for answer in answers], correct, stage.run.objective))


@shared_task(name="cpu.score", base=StageTask)
def score_task(run: str, plan: str, index: int, phase: Phase, attempt: int) -> None:
    run_stage("score", (run, plan, index, phase, attempt), score_stage)


@shared_task(name="cpu.gather", ignore_result=True)
def notify_driver(run: str, plan: str, attempt: int) -> None:
    """The body of a plan's chord: all candidates have ended, so the driver reads the record now."""
    store_of(run).notify(run)
