"""Critiques and proposals by the target itself, in the form that a JSON grammar holds it to."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from celery import shared_task

from tasks.gpu.rollout import ask_for_guide, chat_request, finish_of
from tasks.guide.context import guide_context
from tasks.job import Job, JobTask, run_job
from tasks.message import ContentKey, Count, RunId


def ask_itself(job: Job) -> dict[str, Any]:
    """One reply, as it was written.

    The job's arguments: `messages`, system and user; `schema`; temperature, top_p, max_new_tokens and seed.
    """
    context = guide_context(job)
    schema = json.dumps(job.arguments["schema"])
    request = chat_request(context.target, job.arguments["messages"], job.arguments, json_schema=schema)
    [answer] = ask_for_guide(context, [request])
    used = {"prompt": answer.prompt_tokens, "cached": 0, "completion": answer.completion_tokens, "cost_usd": 0.0}
    return {
        "text": answer.text,
        "finish": finish_of(answer),
        "by": context.target.model,
        "tokens": answer.completion_tokens,
        "usage": used,
    }


def _tokens(result: Mapping[str, Any]) -> dict[str, float]:
    return {"target": result["tokens"]}


@shared_task(name="gpu.critique", base=JobTask, card="serves")
def critique_on_target(run: RunId, key: ContentKey, attempt: Count) -> None:
    run_job((run, key, attempt), ask_itself, _tokens)


@shared_task(name="gpu.propose", base=JobTask, card="serves")
def propose_on_target(run: RunId, key: ContentKey, attempt: Count) -> None:
    run_job((run, key, attempt), ask_itself, _tokens)
