"""The reflector's mutation: a new delta for one cluster (genetic_evolution_plan.md, sections 3, 3.1 and 8).

The reflect stage: the reflector reads a child's answers and proposes one new delta (section 3).
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from celery import shared_task

from tasks import context
from tasks.message import Count, PlanName, RunId
from tasks.openai import client_factory
from tasks.openai.prompt_escaping import one_line, plain, quote, records
from tasks.openai.prompts import MUTATION_SYSTEM, MUTATION_USER
from tasks.openai.schema import strict_object
from tasks.openai.structured_call import Ask, Invalid, Log, ask_twice, asker
from tasks.plan import Phase
from tasks.stage import Stage, StageTask, run_stage
from tasks.template import fill

SCHEMA_NAME = "mutation"
SCHEMA = strict_object({"delta": {"type": "number"}, "scratchpad": {"type": "string"}})
EPS = 1e-9
LARGEST_DELTA = 1000.0  # beyond it a logit is forced or forbidden anyway, and float16 overflows


@dataclass(frozen=True)
class Response:
    """One answer of the training set, judged. `tokens` without the end-of-turn token."""

    example_id: str
    is_correct: bool
    explanation: str
    text: str
    tokens: int


@dataclass(frozen=True)
class Proposal:
    """The target cluster's new delta, and the scratchpad that the individual carries on."""

    delta: float
    scratchpad: str


@dataclass(frozen=True)
class Skipped:
    """Both replies were unusable: the child stays as it is. `reason` is that of the second."""

    reason: str


def mutation_messages(
    descriptions: Sequence[Mapping[str, Any]],
    deltas: Mapping[str, float],
    scratchpad: str,
    target: str,
    responses: Sequence[Response],
) -> tuple[str, str]:
    """The system and the user message for one mutation.

    descriptions: what `cluster_descriptions.json` lists; deltas: by cluster id, in canonical order; target: one of
    the ids; responses: all of the training set, in its order.  Raises: KeyError for a target without a delta.
    """
    if target not in deltas:
        raise KeyError(f"cluster {target!r} has no delta")
    values = {
        "cluster_descriptions_json": records(descriptions),
        "current_deltas_json": one_line(dict(deltas)),
        "current_scratchpad": quote(scratchpad),
        "target_cluster_id": target,
        "all_responses_with_correctness": records(_shown(response) for response in responses),
    }
    return MUTATION_SYSTEM, fill(MUTATION_USER, values)


def check_proposal(data: object, current: float, eps: float = EPS) -> Proposal | Invalid:
    """The proposal in a reply, or why it is invalid: not a finite number within 1000, or within `eps` of `current`."""
    if not isinstance(data, Mapping):
        return Invalid("the reply is not an object")
    delta, scratchpad = data.get("delta"), data.get("scratchpad")
    if isinstance(delta, bool) or not isinstance(delta, int | float):
        return Invalid(f"delta is not a number: {delta!r}")
    if not abs(delta) <= LARGEST_DELTA or math.isnan(delta):
        return Invalid(f"delta is not a finite number between -{LARGEST_DELTA:g} and {LARGEST_DELTA:g}")
    if abs(delta - current) <= eps:
        return Invalid(f"delta is the current value, {current!r}")
    if not isinstance(scratchpad, str):
        return Invalid("scratchpad is not a string")
    return Proposal(float(delta), plain(scratchpad))


def propose(ask: Ask, messages: tuple[str, str], current: float, log: Log, eps: float = EPS) -> Proposal | Skipped:
    """Ask for a mutation; once more when the reply is invalid; then skip it.

    current: the target cluster's delta now.  Raises: CallError (unreachable, refused, cut), which parks the run.
    """
    result = ask_twice(ask, "mutation", messages, lambda data: check_proposal(data, current, eps), log)
    return Skipped(result.reason) if isinstance(result, Invalid) else result


def _shown(response: Response) -> dict[str, Any]:
    return {
        "example_id": response.example_id,
        "correct": "yes" if response.is_correct else "no",
        "explanation": response.explanation,
        "tokens": response.tokens,
        "answer": response.text,
    }


def responses(stage: Stage) -> list[Response]:
    """All responses of the training set to the unmutated child, each with its verdict."""
    answers = stage.need("answer", "pre")["answers"]
    verdicts = stage.need("judge", "pre")["verdicts"]
    texts = stage.store.shared(stage.run.id, [a["key"] for a in answers])
    reasons = stage.store.shared(stage.run.id, [v["key"] for v in verdicts])
    examples = context.examples(stage.run.id, stage.candidate.examples)
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
    position = stage.candidate.target
    if position is None:
        raise ValueError(f"{stage.node} has no target cluster")
    descriptions = stage.store.descriptions(stage.run.id)
    ids = [str(d["id"]) for d in descriptions]
    deltas = dict(zip(ids, stage.candidate.deltas, strict=True))
    messages = mutation_messages(descriptions, deltas, stage.scratchpad(), ids[position], responses(stage))
    client = client_factory.client_for(stage.run, stage.store)
    call_id = f"{stage.run.id}-{stage.node}-mutation"
    ask = asker(client, stage.run.reflector, "mutation", SCHEMA, call_id)
    log = client_factory.prompt_logger(stage.store, stage.run.id, f"gen_{stage.plan.generation}_mutation_{stage.node}")
    result = propose(ask, messages, stage.candidate.deltas[position], log)
    if isinstance(result, Proposal):
        return {"delta": result.delta, "scratchpad": result.scratchpad}
    return {"delta": None, "reason": result.reason}


@shared_task(name="openai.reflect", base=StageTask)
def reflect_task(run: RunId, plan: PlanName, index: Count, phase: Phase, attempt: Count) -> None:
    run_stage("reflect", (run, plan, index, phase, attempt), reflect_stage)
