"""The two cpu tasks of a plan: the score of an evaluation, and the end of the plan's chord."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

from celery import shared_task

from tasks import context
from tasks.message import Count, PlanName, RunId
from tasks.models import Fitness, Score
from tasks.plan import Phase
from tasks.stage import Stage, StageTask, run_stage


def score(tokens: Sequence[int], correct: Sequence[bool], fitness: Fitness) -> Score:
    """Score one evaluation.

    tokens: [n] generated tokens of each answer; correct: [n] its verdicts.
    Raises: ValueError when the two differ in length or are empty.
    """
    if not tokens or len(tokens) != len(correct):
        raise ValueError(f"{len(tokens)} answers and {len(correct)} verdicts cannot be scored")
    mean_tokens = sum(tokens) / len(tokens)
    shortness = 1 / (1 + mean_tokens / fitness.shortness_scale)
    correctness = sum(correct) / len(correct)
    value = fitness.lambda_shortness * shortness + fitness.lambda_correctness * correctness
    return Score(value, shortness, correctness, mean_tokens)


def score_stage(stage: Stage) -> dict[str, Any]:
    answers = stage.need("answer")["answers"]
    verdicts = stage.need("judge")["verdicts"]
    tokens = [answer["tokens"] for answer in answers]
    return asdict(score(tokens, [v["is_correct"] for v in verdicts], stage.run.fitness))


@shared_task(name="cpu.score", base=StageTask)
def score_task(run: RunId, plan: PlanName, index: Count, phase: Phase, attempt: Count) -> None:
    run_stage("score", (run, plan, index, phase, attempt), score_stage)


@shared_task(name="cpu.gather", ignore_result=True)
def notify_driver(run: RunId, plan: PlanName, attempt: Count) -> None:
    """The body of a plan's chord: all candidates have ended, so the driver reads the record now."""
    context.store_of(run).notify(run)
