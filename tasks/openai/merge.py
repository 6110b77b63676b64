"""The merge stage: the child's scratchpad, made of its parents' two (genetic_evolution_plan.md section 4)."""

from __future__ import annotations

from typing import Any

from celery import shared_task

from tasks.message import Count, PlanName, RunId
from tasks.openai import calling, merging
from tasks.openai.asking import asker
from tasks.openai.merging import Parent
from tasks.plan import Phase
from tasks.stage import Stage, StageTask, run_stage


def merge_stage(stage: Stage) -> dict[str, Any]:
    owed = stage.member.merge
    if owed is None:
        raise ValueError(f"{stage.node} has no parents to merge")
    client = calling.client_for(stage.run, stage.store)
    ask = asker(client, stage.run.reflector, "merge", merging.SCHEMA, f"{stage.run.id}-{stage.node}-merge")
    log = calling.prompt_logger(stage.store, stage.run.id, f"gen_{stage.plan.generation}_merge_{stage.node}")
    first, second = Parent(owed.scratchpad_a, owed.fitness_a), Parent(owed.scratchpad_b, owed.fitness_b)
    merged = merging.merge(ask, first, second, log)
    return {"scratchpad": merged.scratchpad, "fallback": merged.fallback}


@shared_task(name="openai.merge", base=StageTask)
def merge_task(run: RunId, plan: PlanName, index: Count, phase: Phase, dispatch: Count) -> None:
    run_stage("merge", (run, plan, index, phase, dispatch), merge_stage)
