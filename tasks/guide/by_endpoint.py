"""Critiques and proposals by an endpoint.  A reply is kept as it came: whoever asked decides whether it can be used.

An unusable reply is not asked for again, and nothing of it is mended.
"""

from __future__ import annotations

import dataclasses
from typing import Any

from celery import shared_task

from tasks.common.validation import ContentKey, Count, RunId, adapter
from tasks.guide.critique import Critique
from tasks.guide.jobs import guide_context
from tasks.guide.proposal import GuideProposal
from tasks.openai.calls import client_for
from tasks.openai.endpoint import cost_usd
from tasks.records import Reflector
from tasks.task import Job, JobTask, run_job


def ask_endpoint(job: Job, name: str, kind: type) -> dict[str, Any]:
    """One reply of the endpoint, in the strict schema of a type.  The job's arguments are those of `ask_itself`."""
    from openai.lib._pydantic import to_strict_json_schema

    context, arguments = guide_context(job), job.arguments
    if context.endpoint is None:
        raise ValueError("the run has no endpoint")
    settings = Reflector(
        model=context.endpoint_model,
        temperature=arguments["temperature"],
        top_p=arguments["top_p"],
        max_completion_tokens=arguments["max_new_tokens"],
        seed=arguments["seed"],
    )
    system, user = arguments["messages"]
    written = client_for(job.store, job.run, context.endpoint).write(
        (system, user), name, to_strict_json_schema(adapter(kind)), settings, job.call_id, settings.seed
    )
    job.store.add_providers(job.run, "reflector", [written.provider])
    used = dataclasses.asdict(written.usage)
    counted = {name: used[name] for name in ("prompt", "cached", "completion")}
    return {
        "text": written.text,
        "finish": written.finish,
        "by": written.provider,
        "tokens": written.usage.completion,
        "usage": {**counted, "cost_usd": cost_usd(written.usage, context.endpoint)},
    }


@shared_task(name="openai.critique", base=JobTask)
def critique_by_endpoint(run: RunId, key: ContentKey, attempt: Count) -> None:
    run_job((run, key, attempt), lambda job: ask_endpoint(job, "critique", Critique))


@shared_task(name="openai.propose", base=JobTask)
def propose_by_endpoint(run: RunId, key: ContentKey, attempt: Count) -> None:
    run_job((run, key, attempt), lambda job: ask_endpoint(job, "proposal", GuideProposal))
