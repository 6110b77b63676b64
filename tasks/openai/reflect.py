"""The reflect stage: the reflector reads a candidate's answers and proposes one new delta, or a new vector."""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, TypeVar

from celery import shared_task

from tasks.message import Count, PlanName, RunId
from tasks.openai import mutation, rewrite
from tasks.openai.calls import Ask, Invalid, Kind, Log, ask_with_retry, client_for, make_ask, prompt_logger
from tasks.openai.errors import ContextExceededError
from tasks.openai.fitting import Response, fit_responses, prompt_limit
from tasks.openai.provider import estimate_tokens
from tasks.openai.schema import Schema
from tasks.openai.variant import as_variant, reflector_of
from tasks.plan import Phase
from tasks.stage import Stage, StageTask, run_stage

logger = logging.getLogger(__name__)
Messages = tuple[str, str]
Fitted = tuple[Messages, dict[str, int]]
Result = TypeVar("Result")
SHARES = (1.0, 0.7, 0.5, 0.35)
"""What a prompt may have of its limit, at the first and at each further try.

The limit is kept by an estimate.  Where the endpoint counts more tokens than the model's context has, the prompt is cut
further.
"""


def reflect_stage(stage: Stage) -> dict[str, Any]:
    """The record of the stage: `delta` or `deltas` with the new scratchpad, or `delta` None and the reason."""
    return _rewrite(stage) if stage.candidate.rewrite else _mutate(stage)


def _mutate(stage: Stage) -> dict[str, Any]:
    position = stage.candidate.target
    if position is None:
        raise ValueError(f"{stage.node} has no target cluster")
    current = stage.candidate.deltas[position]

    def propose(messages: Messages, ask: Ask, log: Log) -> mutation.Proposal | mutation.Skipped:
        return mutation.propose(ask, messages, current, log)

    asking = partial(_asking, stage, "mutation", mutation.SCHEMA)
    result, answers_cut = _ask_fitted(partial(mutation_prompt, stage, position), asking, propose)
    if isinstance(result, mutation.Proposal):
        return {"delta": result.delta, "scratchpad": result.scratchpad, **answers_cut}
    return {"delta": None, "reason": result.reason, **answers_cut}


def mutation_prompt(stage: Stage, position: int, share: float = 1.0) -> Fitted:
    """The messages of a mutation of the cluster at `position`, and for the record how many answers were cut to fit.

    share: the part of the prompt's limit that they may have.
    """
    descriptions, deltas = _clusters(stage)
    target = list(deltas)[position]

    def build(responses: Sequence[Response]) -> Messages:
        return mutation.mutation_messages(descriptions, deltas, stage.scratchpad(), target, responses)

    return _fitted(stage, build, share)


def _rewrite(stage: Stage) -> dict[str, Any]:
    every, current = _clusters(stage)
    descriptions, free = rewrite.free_clusters(every, current, stage.run.pinned_clusters)
    ids = list(free)

    def build(responses: Sequence[Response]) -> Messages:
        return rewrite.rewrite_messages(descriptions, free, stage.scratchpad(), responses)

    def propose(messages: Messages, ask: Ask, log: Log) -> rewrite.Rewrite | Invalid:
        return ask_with_retry(ask, "rewrite", messages, lambda data: rewrite.check_rewrite(data, ids), log)

    asking = partial(_asking, stage, "rewrite", rewrite.schema_of(ids))
    result, answers_cut = _ask_fitted(partial(_fitted, stage, build), asking, propose)
    if isinstance(result, Invalid):
        return {"delta": None, "reason": result.reason, **answers_cut}
    deltas = current | dict(zip(ids, result.deltas, strict=True))
    return {"deltas": list(deltas.values()), "scratchpad": result.summary, **answers_cut}


def _clusters(stage: Stage) -> tuple[list[dict[str, Any]], dict[str, float]]:
    """The descriptions of the clusters, and the candidate's deltas by cluster id, in canonical order."""
    descriptions = stage.store.clusterings.descriptions(stage.run.id)
    return descriptions, dict(zip((str(d["id"]) for d in descriptions), stage.candidate.deltas, strict=True))


def _ask_fitted(
    fitted: Callable[[float], Fitted],
    asking: Callable[[int], tuple[Ask, Log]],
    use: Callable[[Messages, Ask, Log], Result],
) -> tuple[Result, dict[str, int]]:
    """What `use` makes of the reply, and for the record how many answers were cut.

    fitted: the messages within a share of their limit; asking: the call after so many refused ones.
    """
    for refused, share in enumerate(SHARES):
        messages, answers_cut = fitted(share)
        try:
            return use(messages, *asking(refused)), answers_cut
        except ContextExceededError as error:
            last = error
            logger.info("%s: the answers in it are cut further", error)
    raise last


def _fitted(stage: Stage, build: Callable[[Sequence[Response]], Messages], share: float) -> Fitted:
    """The messages that `build` makes of the answers, and for the record how many of them were cut to fit.

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
    fitted, cut = fit_responses(responses, limit, tokens_of)
    if cut:
        logger.info("the answers are too long for the reflector's prompt: %d of them are cut in the middle", cut)
    return whole(fitted), {"answers_cut": cut} if cut else {}


def _asking(stage: Stage, kind: Kind, schema: Schema, refused: int) -> tuple[Ask, Log]:
    """The call to the reflector after so many that were refused, with an id of its own, and the log of its prompts."""
    client = client_for(stage.store, stage.run.id, stage.run.endpoint)
    reflector = reflector_of(stage.run.reflector, stage.candidate.variant)
    name = f"{stage.node}-{kind}" + (f"-shorter{refused}" if refused else "")
    ask = make_ask(client, reflector, kind, schema, f"{stage.run.id}-{name}", prompt_limit(stage.run))
    stem = f"gen_{stage.plan.generation}_{kind}_{stage.node}" + (f"_shorter{refused}" if refused else "")
    return ask, prompt_logger(stage.store, stage.run.id, stem)


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
