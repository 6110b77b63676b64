"""The reflect stage: the reflector reads a candidate's answers and proposes one new delta, or a new vector."""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from typing import Any

from celery import shared_task

from tasks.message import Count, PlanName, RunId
from tasks.openai import mutation, rewrite
from tasks.openai.calls import Ask, Invalid, Kind, Log, ask_with_retry, client_for, make_ask, prompt_logger
from tasks.openai.fitting import Response, fit_responses, prompt_limit
from tasks.openai.provider import estimate_tokens
from tasks.openai.schema import Schema
from tasks.openai.variant import as_variant, reflector_of
from tasks.plan import Phase
from tasks.stage import Stage, StageTask, run_stage

logger = logging.getLogger(__name__)
Messages = tuple[str, str]


def reflect_stage(stage: Stage) -> dict[str, Any]:
    """The record of the stage: `delta` or `deltas` with the new scratchpad, or `delta` None and the reason."""
    return _rewrite(stage) if stage.candidate.rewrite else _mutate(stage)


def _mutate(stage: Stage) -> dict[str, Any]:
    position = stage.candidate.target
    if position is None:
        raise ValueError(f"{stage.node} has no target cluster")
    messages, answers_cut = mutation_prompt(stage, position)
    ask, log = _asking(stage, "mutation", mutation.SCHEMA)
    result = mutation.propose(ask, messages, stage.candidate.deltas[position], log)
    if isinstance(result, mutation.Proposal):
        return {"delta": result.delta, "scratchpad": result.scratchpad, **answers_cut}
    return {"delta": None, "reason": result.reason, **answers_cut}


def mutation_prompt(stage: Stage, position: int) -> tuple[Messages, dict[str, int]]:
    """The messages of a mutation of the cluster at `position`, and for the record how many answers were cut to fit."""
    descriptions, deltas = _clusters(stage)
    target = list(deltas)[position]

    def build(responses: Sequence[Response]) -> Messages:
        return mutation.mutation_messages(descriptions, deltas, stage.scratchpad(), target, responses)

    return _fitted(stage, build)


def _rewrite(stage: Stage) -> dict[str, Any]:
    every, current = _clusters(stage)
    descriptions, free = rewrite.free_clusters(every, current, stage.run.pinned_clusters)
    ids = list(free)

    def build(responses: Sequence[Response]) -> Messages:
        return rewrite.rewrite_messages(descriptions, free, stage.scratchpad(), responses)

    messages, answers_cut = _fitted(stage, build)
    ask, log = _asking(stage, "rewrite", rewrite.schema_of(ids))
    result = ask_with_retry(ask, "rewrite", messages, lambda data: rewrite.check_rewrite(data, ids), log)
    if isinstance(result, Invalid):
        return {"delta": None, "reason": result.reason, **answers_cut}
    deltas = current | dict(zip(ids, result.deltas, strict=True))
    return {"deltas": list(deltas.values()), "scratchpad": result.summary, **answers_cut}


def _clusters(stage: Stage) -> tuple[list[dict[str, Any]], dict[str, float]]:
    """The descriptions of the clusters, and the candidate's deltas by cluster id, in canonical order."""
    descriptions = stage.store.clusterings.descriptions(stage.run.id)
    return descriptions, dict(zip((str(d["id"]) for d in descriptions), stage.candidate.deltas, strict=True))


def _fitted(stage: Stage, build: Callable[[Sequence[Response]], Messages]) -> tuple[Messages, dict[str, int]]:
    """The messages that `build` makes of the answers, and for the record how many of them were cut to fit."""

    def whole(responses: Sequence[Response]) -> Messages:
        return as_variant(build(responses), stage.candidate.variant)

    fitted, cut = fit_responses(
        read_responses(stage), prompt_limit(stage.run), lambda some: sum(map(estimate_tokens, whole(some)))
    )
    if cut:
        logger.info("the answers are too long for the reflector's prompt: %d of them are cut in the middle", cut)
    return whole(fitted), {"answers_cut": cut} if cut else {}


def _asking(stage: Stage, kind: Kind, schema: Schema) -> tuple[Ask, Log]:
    """The call to the reflector, and the log of its prompts."""
    client, reflector = client_for(stage.run, stage.store), reflector_of(stage.run.reflector, stage.candidate.variant)
    call_id = f"{stage.run.id}-{stage.node}-{kind}"
    ask = make_ask(client, reflector, kind, schema, call_id, prompt_limit(stage.run))
    return ask, prompt_logger(stage.store, stage.run.id, f"gen_{stage.plan.generation}_{kind}_{stage.node}")


def read_responses(stage: Stage) -> list[Response]:
    """The unmutated candidate's answers to the training set, each with its verdict."""
    answers = stage.need("answer", "pre")["answers"]
    verdicts = stage.need("judge", "pre")["verdicts"]
    texts = stage.store.shared(stage.run.id, [a["key"] for a in answers])
    reasons = stage.store.shared(stage.run.id, [v["key"] for v in verdicts])
    examples = stage.examples()
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


@shared_task(name="openai.reflect", base=StageTask)
def reflect_task(run: RunId, plan: PlanName, index: Count, phase: Phase, attempt: Count) -> None:
    run_stage("reflect", (run, plan, index, phase, attempt), reflect_stage)
