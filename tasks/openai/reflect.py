"""The reflect stage: the reflector reads a child's answers and proposes one new delta (section 3)."""

from __future__ import annotations

from typing import Any

from celery import shared_task

from tasks import context
from tasks.message import Count, PlanName, RunId
from tasks.openai import calling, reflecting
from tasks.openai.asking import asker
from tasks.openai.reflecting import Proposal, Response
from tasks.plan import Phase
from tasks.stage import Stage, StageTask, run_stage


def responses(stage: Stage) -> list[Response]:
    """All responses of the training set to the unmutated child, each with its verdict."""
    answers = stage.need("answer", "pre")["answers"]
    verdicts = stage.need("judge", "pre")["verdicts"]
    texts = stage.store.shared(stage.run.id, [a["key"] for a in answers])
    reasons = stage.store.shared(stage.run.id, [v["key"] for v in verdicts])
    examples = context.examples(stage.run.id, stage.member.examples)
    return [
        Response(
            example_id=example.id,
            is_correct=verdict["is_correct"],
            explanation=reasons[verdict["key"]]["reasoning"],
            text=texts[answer["key"]]["text"],
            tokens=answer["tokens"],
        )
        for example, answer, verdict in zip(examples, answers, verdicts, strict=True)
    ]


def reflect_stage(stage: Stage) -> dict[str, Any]:
    position = stage.member.target
    if position is None:
        raise ValueError(f"{stage.node} has no target cluster")
    descriptions = stage.store.descriptions(stage.run.id)
    ids = [str(d["id"]) for d in descriptions]
    deltas = dict(zip(ids, stage.member.deltas, strict=True))
    messages = reflecting.mutation_messages(descriptions, deltas, stage.scratchpad(), ids[position], responses(stage))
    client = calling.client_for(stage.run, stage.store)
    call_id = f"{stage.run.id}-{stage.node}-mutation"
    ask = asker(client, stage.run.reflector, "mutation", reflecting.SCHEMA, call_id)
    log = calling.prompt_logger(stage.store, stage.run.id, f"gen_{stage.plan.generation}_mutation_{stage.node}")
    result = reflecting.propose(ask, messages, stage.member.deltas[position], log)
    if isinstance(result, Proposal):
        return {"delta": result.delta, "scratchpad": result.scratchpad}
    return {"delta": None, "reason": result.reason}


@shared_task(name="openai.reflect", base=StageTask)
def reflect_task(run: RunId, plan: PlanName, index: Count, phase: Phase, dispatch: Count) -> None:
    run_stage("reflect", (run, plan, index, phase, dispatch), reflect_stage)
