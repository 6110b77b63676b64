"""The reflect stage: the reflector reads a candidate's answers and proposes one new delta, or a new vector."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeVar

from celery import shared_task

from tasks.common.text import estimate_tokens
from tasks.common.validation import Count, PlanName, RunId
from tasks.openai import mutation, rewrite
from tasks.openai.calls import Invalid, Kind, ask_with_retry, client_for, make_ask, prompt_logger
from tasks.openai.endpoint import ContextExceededError
from tasks.openai.fitting import Response, fit_responses, prompt_limit
from tasks.openai.schema import Schema
from tasks.openai.variant import as_variant, reflector_of
from tasks.plan import Phase
from tasks.stage import Stage, StageTask, run_stage

logger = logging.getLogger(__name__)
Messages = tuple[str, str]
Builder = Callable[[Sequence[Response]], Messages]
Used = TypeVar("Used")
SHARES = (1.0, 0.7, 0.5, 0.35)
"""What a prompt may have of its limit, at the first and at each further try.

The limit is kept by an estimate.  Where the endpoint counts more tokens than the model's context has, the prompt is cut
further.
"""
CUT = "cut: the answer breaks off. "


def reflect_stage(stage: Stage) -> dict[str, Any]:
    """The record of the stage: `delta` or `deltas` with the new scratchpad, or `delta` None and the reason."""
    return _rewrite(stage) if stage.candidate.rewrite else _mutate(stage)


def _mutate(stage: Stage) -> dict[str, Any]:
    position = stage.candidate.target
    assert position is not None, "a mutation has a target cluster"
    current = stage.candidate.deltas[position]
    result, answers_cut = _ask(
        stage,
        "mutation",
        mutation.SCHEMA,
        mutation_builder(stage, position),
        lambda data: mutation.check_proposal(data, current),
    )
    if isinstance(result, Invalid):
        return {"delta": None, "reason": result.reason, **answers_cut}
    return {"delta": result.delta, "scratchpad": result.scratchpad, **answers_cut}


def mutation_builder(stage: Stage, position: int) -> Builder:
    """The messages for a mutation of the cluster at `position`, from the responses in them."""
    descriptions, deltas = _clusters(stage)
    target = list(deltas)[position]
    return lambda responses: mutation.mutation_messages(descriptions, deltas, stage.scratchpad(), target, responses)


def _rewrite(stage: Stage) -> dict[str, Any]:
    every, current = _clusters(stage)
    descriptions, free = rewrite.free_clusters(every, current, stage.run.pinned_clusters)
    ids = list(free)
    result, answers_cut = _ask(
        stage,
        "rewrite",
        rewrite.schema_of(ids),
        lambda responses: rewrite.rewrite_messages(descriptions, free, stage.scratchpad(), responses),
        lambda data: rewrite.check_rewrite(data, ids),
    )
    if isinstance(result, Invalid):
        return {"delta": None, "reason": result.reason, **answers_cut}
    deltas = current | dict(zip(ids, result.deltas, strict=True))
    return {"deltas": list(deltas.values()), "scratchpad": result.summary, **answers_cut}


def _clusters(stage: Stage) -> tuple[list[dict[str, Any]], dict[str, float]]:
    """The descriptions of the clusters, and the candidate's deltas by cluster id, in canonical order."""
    descriptions = stage.store.clusterings.descriptions(stage.run.id, stage.candidate.clustering)
    return descriptions, dict(zip((str(d["id"]) for d in descriptions), stage.candidate.deltas, strict=True))


def _ask(
    stage: Stage, kind: Kind, schema: Schema, build: Builder, check: Callable[[Mapping[str, Any]], Used | Invalid]
) -> tuple[Used | Invalid, dict[str, int]]:
    """What `check` makes of the reflector's reply, and for the record how many answers were cut."""
    reflector, limit = reflector_of(stage.run.reflector, stage.candidate.variant), prompt_limit(stage.run)
    for refused, share in enumerate(SHARES):
        messages, answers_cut = fitted(stage, build, share)
        client = client_for(stage.store, stage.run.id, stage.run.endpoint)
        name = f"{stage.run.id}-{stage.node}-{kind}" + (f"-shorter{refused}" if refused else "")
        stem = f"gen_{stage.plan.generation}_{kind}_{stage.node}" + (f"_shorter{refused}" if refused else "")
        ask, log = (
            make_ask(client, reflector, kind, schema, name, limit),
            prompt_logger(stage.store, stage.run.id, stem),
        )
        try:
            return ask_with_retry(ask, kind, messages, check, log), answers_cut
        except ContextExceededError as error:
            last = error
            logger.info("%s: the answers in it are cut further", error)
    raise last


def fitted(stage: Stage, build: Builder, share: float = 1.0) -> tuple[Messages, dict[str, int]]:
    """The messages within a share of their limit, and for the record how many answers were cut to fit.

    Where a prompt has no limit, a share is one of its own length.
    """

    def whole(responses: Sequence[Response]) -> Messages:
        return as_variant(build(responses), stage.candidate.variant)

    def tokens_of(responses: Sequence[Response]) -> int:
        return sum(map(estimate_tokens, whole(responses)))

    responses = read_responses(stage)
    limit = prompt_limit(stage.run)
    if share < 1:
        length = tokens_of(responses)
        limit = int(share * (length if limit is None else min(limit, length)))
    fitting, cut = fit_responses(responses, limit, tokens_of)
    if cut:
        logger.info("the answers are too long for the reflector's prompt: %d of them are cut in the middle", cut)
    return whole(fitting), {"answers_cut": cut} if cut else {}


def read_responses(stage: Stage) -> list[Response]:
    """The unmutated candidate's answers to the training set, each with its verdict; one that is cut is not correct."""
    answers = stage.need("answer", "pre")["answers"]
    verdicts = stage.need("judge", "pre")["verdicts"]
    texts = stage.store.shared(stage.run.id, [a["key"] for a in answers])
    reasons = stage.store.shared(stage.run.id, [v["key"] for v in verdicts])
    examples = stage.examples()
    return [
        Response(
            example_id=example.id,
            is_correct=verdict["is_correct"] and answer["whole"],
            explanation=("" if answer["whole"] else CUT) + reasons[verdict["key"]]["reasoning"],
            text=texts[answer["key"]]["text"],
            tokens=answer["tokens"],
        )
        for example, answer, verdict in zip(examples, answers, verdicts, strict=True)
    ]


@shared_task(name="openai.reflect", base=StageTask)
def reflect_task(run: RunId, plan: PlanName, index: Count, phase: Phase, attempt: Count) -> None:
    run_stage("reflect", (run, plan, index, phase, attempt), reflect_stage)
