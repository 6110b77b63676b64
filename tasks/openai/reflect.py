"""The stages of the reflector: it proposes deltas after reading a candidate's answers, and merges two scratchpads.

A prompt and its reply must fit the model's context and the endpoint's tokens a minute.  If they do not, texts are cut
in the middle, the longest and the wrong answers first: no answer and no explanation keeps more than `cap` characters, a
wrong answer no more than half of it, and `cap` is the largest with which the prompt fits.
"""

from __future__ import annotations

import dataclasses
import logging
from collections.abc import Callable, Iterable, Sequence
from typing import Annotated, Any, ClassVar, Self

from celery import shared_task
from pydantic import AfterValidator, create_model

from tasks.common.text import SHORTEST, cut_middle, estimate_tokens, largest_length, written_scratchpad
from tasks.common.validation import LARGEST_DELTA, ReplyModel
from tasks.openai.calls import ask_reflector, prompt_limit
from tasks.openai.client import Messages, R
from tasks.openai.endpoint import ContextExceededError, UnusableReplyError
from tasks.openai.prompts import as_variant, merge_messages, mutation_messages, rewrite_messages
from tasks.plan import Phase
from tasks.records import JudgedAnswer
from tasks.stage import Stage, StageTask, run_stage

logger = logging.getLogger(__name__)
EPS = 1e-9  # by which a new delta differs from the current one
PROMPT_SHARES = (1.0, 0.7, 0.5, 0.35)  # of the limit, an estimate, at each try: where the endpoint counts more tokens
CUT = "cut: the answer breaks off. "


def _check_delta(delta: float) -> float:
    if abs(delta) > LARGEST_DELTA:
        raise ValueError(f"it is not within -{LARGEST_DELTA:g} and {LARGEST_DELTA:g}")
    return delta


# Checked here and not by the schema: not every endpoint takes bounds in a strict one.
ProposedDelta = Annotated[float, AfterValidator(_check_delta)]
WrittenScratchpad = Annotated[str, AfterValidator(written_scratchpad)]


class Mutation(ReplyModel):
    schema_name: ClassVar = "mutation"
    delta: ProposedDelta
    scratchpad: WrittenScratchpad

    @classmethod
    def of(cls, current: float) -> type[Self]:
        """The model of a reply with another delta than the current one."""

        def check(delta: float) -> float:
            if abs(delta - current) <= EPS:
                raise ValueError(f"it is the current value, {current!r}")
            return delta

        return create_model("Mutation", __base__=cls, delta=(Annotated[ProposedDelta, AfterValidator(check)], ...))


class Rewrite(ReplyModel):
    schema_name: ClassVar = "rewrite"
    deltas: ReplyModel
    summary: WrittenScratchpad

    @classmethod
    def of(cls, clusters: Iterable[str]) -> type[Self]:
        """The model of a reply with exactly these clusters."""
        deltas = create_model("Deltas", __base__=ReplyModel, **dict.fromkeys(clusters, (ProposedDelta, ...)))  # type: ignore[call-overload]
        return create_model("Rewrite", __base__=cls, deltas=(deltas, ...))


class MergedScratchpad(ReplyModel):
    schema_name: ClassVar = "merge"
    scratchpad: WrittenScratchpad


def fit_responses(
    responses: Sequence[JudgedAnswer], limit: int | None, tokens_of: Callable[[Sequence[JudgedAnswer]], int]
) -> tuple[list[JudgedAnswer], int]:
    """The responses as they enter the prompt, and how many of them are cut; `tokens_of` estimates the prompt.

    A prompt that is too long even with `SHORTEST` characters of each text is not sent (`ask_reflector`).
    """
    responses = list(responses)
    if limit is None or tokens_of(responses) <= limit:
        return responses, 0

    def cut(response: JudgedAnswer, cap: int) -> JudgedAnswer:
        longest = cap if response.is_correct else max(SHORTEST, cap // 2)
        text, reasoning = cut_middle(response.text, longest), cut_middle(response.reasoning, cap)
        return dataclasses.replace(response, text=text, reasoning=reasoning)

    cap = largest_length(
        max(max(2 * len(r.text), len(r.reasoning)) for r in responses),
        lambda cap: tokens_of([cut(r, cap) for r in responses]) <= limit,
    )
    fitted = [cut(response, cap) for response in responses]
    return fitted, sum(one != before for one, before in zip(fitted, responses, strict=True))


def reflect_stage(stage: Stage) -> dict[str, Any]:
    """`delta` or `deltas` with the new scratchpad, or `delta` None and the reason."""
    candidate, scratchpad = stage.candidate, stage.scratchpad()
    descriptions = stage.store.clusterings.descriptions(stage.run.id, candidate.clustering)
    deltas = dict(zip((str(d["id"]) for d in descriptions), candidate.deltas, strict=True))
    if candidate.rewrite:
        # The reflector reads of these alone, so that it proposes nothing that would not be done.
        free = {c: delta for place, (c, delta) in enumerate(deltas.items()) if place not in stage.run.pinned_clusters}
        shown = [described for described in descriptions if str(described["id"]) in free]
        found, about = _ask(stage, Rewrite.of(free), lambda r: rewrite_messages(shown, free, scratchpad, r))
        if found is None:
            return about
        return {"deltas": list((deltas | found.deltas.model_dump()).values()), "scratchpad": found.summary, **about}
    assert candidate.target is not None, "a mutation has a target cluster"
    target, model = list(deltas)[candidate.target], Mutation.of(candidate.deltas[candidate.target])
    proposed, about = _ask(stage, model, lambda r: mutation_messages(descriptions, deltas, scratchpad, target, r))
    return about if proposed is None else {**proposed.model_dump(), **about}


def _ask(
    stage: Stage, reply: type[R], write: Callable[[Sequence[JudgedAnswer]], Messages]
) -> tuple[R | None, dict[str, Any]]:
    """The reply to the messages that `write` makes of the responses, and what the record says of it beside."""
    variant, reflector, responses = stage.candidate.variant, stage.run.reflector, read_responses(stage)
    if reflector.seed is not None:
        reflector = dataclasses.replace(reflector, seed=reflector.seed + variant)

    def messages_of(responses: Sequence[JudgedAnswer]) -> Messages:
        return as_variant(write(responses), variant)

    def tokens_of(responses: Sequence[JudgedAnswer]) -> int:
        return sum(map(estimate_tokens, messages_of(responses)))

    for refused, share in enumerate(PROMPT_SHARES):
        limit = prompt_limit(stage.run)
        if share < 1:  # where a prompt has no limit, of its own length
            length = tokens_of(responses)
            limit = int(share * (length if limit is None else min(limit, length)))
        fitting, cut = fit_responses(responses, limit, tokens_of)
        if cut:
            logger.info("the answers are too long for the reflector's prompt: %d of them are cut in the middle", cut)
        about = {"answers_cut": cut} if cut else {}
        try:
            found = ask_reflector(stage, messages_of(fitting), reply, f"shorter{refused}" if refused else "", reflector)
        except ContextExceededError as error:
            last = error
            logger.info("%s: the answers in it are cut further", error)
        except UnusableReplyError as error:
            return None, {"delta": None, "reason": error.message, **about}
        else:
            return found, about
    raise last


def read_responses(stage: Stage) -> list[JudgedAnswer]:
    """The unmutated candidate's answers, each with its verdict; of one that is cut, the explanation says so."""
    found = stage.store.judged(stage.run.id, stage.plan.name, stage.candidate.index, stage.examples())
    return [one if one.is_whole else dataclasses.replace(one, reasoning=CUT + one.reasoning) for one in found]


def merge_stage(stage: Stage) -> dict[str, Any]:
    """Where no reply is usable, the child starts with the first parent's scratchpad; `fallback` says why."""
    parents = stage.candidate.merge
    assert parents is not None, "the stage is of a candidate with two parents"
    try:
        merged = ask_reflector(stage, merge_messages(parents), MergedScratchpad)
    except UnusableReplyError as error:
        return {"scratchpad": parents.scratchpad_a, "fallback": error.message}
    return {"scratchpad": merged.scratchpad, "fallback": ""}


@shared_task(name="openai.reflect", base=StageTask)
def reflect_task(run: str, plan: str, index: int, phase: Phase, attempt: int) -> None:
    run_stage("reflect", (run, plan, index, phase, attempt), reflect_stage)


@shared_task(name="openai.merge", base=StageTask)
def merge_task(run: str, plan: str, index: int, phase: Phase, attempt: int) -> None:
    run_stage("merge", (run, plan, index, phase, attempt), merge_stage)
