"""The reflector's merge of two parents' scratchpads (genetic_evolution_plan.md, sections 4, 4.1 and 8).

The merge stage: the child's scratchpad, made of its parents' two (genetic_evolution_plan.md section 4).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from celery import shared_task

from tasks.message import Count, PlanName, RunId
from tasks.openai import client_factory
from tasks.openai.prompt_escaping import plain, quote
from tasks.openai.prompts import MERGE_SYSTEM, MERGE_USER
from tasks.openai.schema import strict_object
from tasks.openai.structured_call import Ask, Invalid, Log, ask_twice, asker
from tasks.plan import Phase
from tasks.stage import Stage, StageTask, run_stage
from tasks.template import fill

SCHEMA_NAME = "merge"
SCHEMA = strict_object({"scratchpad": {"type": "string"}})


@dataclass(frozen=True)
class Parent:
    """What a merge must know of a parent."""

    scratchpad: str
    fitness: float


@dataclass(frozen=True)
class Merged:
    """The child's scratchpad. With a `fallback`, both replies were unusable and it is the first parent's."""

    scratchpad: str
    fallback: str = ""


def merge_messages(first: Parent, second: Parent) -> tuple[str, str]:
    """The system and the user message for one merge. Fitness is printed with all its digits."""
    values = {
        "fitness_a": repr(float(first.fitness)),
        "scratchpad_a": quote(first.scratchpad),
        "fitness_b": repr(float(second.fitness)),
        "scratchpad_b": quote(second.scratchpad),
    }
    return MERGE_SYSTEM, fill(MERGE_USER, values)


def check_merge(data: object) -> Merged | Invalid:
    """The merged scratchpad in a reply, or why there is none."""
    scratchpad = data.get("scratchpad") if isinstance(data, Mapping) else None
    return Merged(plain(scratchpad)) if isinstance(scratchpad, str) else Invalid("the reply has no scratchpad")


def merge(ask: Ask, first: Parent, second: Parent, log: Log) -> Merged:
    """Ask for a merge; once more when the reply is invalid; then take the first parent's scratchpad.

    Raises: CallError (unreachable, refused, cut), which parks the run.
    """
    result = ask_twice(ask, "merge", merge_messages(first, second), check_merge, log)
    return Merged(first.scratchpad, result.reason) if isinstance(result, Invalid) else result


def merge_stage(stage: Stage) -> dict[str, Any]:
    owed = stage.candidate.merge
    if owed is None:
        raise ValueError(f"{stage.node} has no parents to merge")
    client = client_factory.client_for(stage.run, stage.store)
    ask = asker(client, stage.run.reflector, "merge", SCHEMA, f"{stage.run.id}-{stage.node}-merge")
    log = client_factory.prompt_logger(stage.store, stage.run.id, f"gen_{stage.plan.generation}_merge_{stage.node}")
    first, second = Parent(owed.scratchpad_a, owed.fitness_a), Parent(owed.scratchpad_b, owed.fitness_b)
    merged = merge(ask, first, second, log)
    return {"scratchpad": merged.scratchpad, "fallback": merged.fallback}


@shared_task(name="openai.merge", base=StageTask)
def merge_task(run: RunId, plan: PlanName, index: Count, phase: Phase, attempt: Count) -> None:
    run_stage("merge", (run, plan, index, phase, attempt), merge_stage)
