"""What a guided run asks of its target: candidates of a ticket, critiques, proposals, and the lengths of prompts."""

from __future__ import annotations

import json
import uuid
from collections.abc import Mapping, Sequence
from typing import Any

from celery import Task, shared_task

from tasks.common.validation import ContentKey, Count, RunId
from tasks.gpu.host import TargetHost, ask_target, host_of
from tasks.gpu.jobs import known_context
from tasks.gpu.prompt import TOKENIZER_LOCK, answer_ends, load_tokenizer, render_chat
from tasks.gpu.target import Generated, GenerateRequest
from tasks.guide.jobs import GuideContext, guide_context
from tasks.records import Target
from tasks.task import Job, JobTask, run_job


def chat_request(
    host: TargetHost,
    target: Target,
    messages: Sequence[str],
    sampling: Mapping[str, Any],
    regex: str | None = None,
    json_schema: str | None = None,
) -> GenerateRequest:
    """Messages through the model's chat template, with the end of the turn as its stop.

    `sampling` has temperature, top_p, max_new_tokens, seed and, where there are some, the texts `stop`.
    """
    with TOKENIZER_LOCK:
        tokenizer = load_tokenizer(host.model_folder(target))
        prompt, stops = render_chat(tokenizer, *messages), tuple(sorted(answer_ends(tokenizer)))
    return GenerateRequest(
        input_ids=tuple(prompt),
        max_new_tokens=sampling["max_new_tokens"],
        temperature=sampling["temperature"],
        top_p=sampling["top_p"],
        seed=sampling["seed"],
        stop_token_ids=stops,
        rid=uuid.uuid4().hex,
        stop=tuple(sampling.get("stop", ())),
        regex=regex,
        json_schema=json_schema,
    )


def ask_for_guide(host: TargetHost, context: GuideContext, requests: Sequence[GenerateRequest]) -> list[dict[str, Any]]:
    """The text, tokens and finish of each answer, in the order of the requests.

    The finish is "stop" at the end of the turn, "stop_string" at a text of `stop`, "length" where it was cut.
    """
    answers: dict[int, Generated] = {}
    ask_target(host, context.target, dict(enumerate(requests)), answers.__setitem__, identity=context.server)
    return [
        {"text": a.text, "tokens": a.completion_tokens, "finish": "stop_string" if a.stop_text else a.finish}
        for a in (answers[index] for index in range(len(requests)))
    ]


def roll_out(job: Job, host: TargetHost) -> dict[str, Any]:
    """One answer for each seed, all in flight at once.

    The job's arguments: `messages`; `cell`, a `DecodeCell`; `seeds`; `regex` or null.
    """
    arguments, context = job.arguments, guide_context(job)
    messages, cell, regex = arguments["messages"], arguments["cell"], arguments["regex"]
    requests = [
        chat_request(host, context.target, messages, cell | {"seed": seed}, regex) for seed in arguments["seeds"]
    ]
    return {"answers": ask_for_guide(host, context, requests), "prompt_tokens": len(requests[0].input_ids)}


def prompt_lengths(job: Job, host: TargetHost) -> dict[str, Any]:
    """{"tokens": [of each prompt], "context": of the target in tokens, None where nobody says it}."""
    target = guide_context(job).target
    host.start_early(target)  # the first job of a run: the server loads its model meanwhile
    model = host.model_folder(target)
    with TOKENIZER_LOCK:
        tokenizer = load_tokenizer(model)
        tokens = [len(render_chat(tokenizer, *messages)) for messages in job.arguments["prompts"]]
        return {"tokens": tokens, "context": known_context(target, model, host)}


def ask_itself(job: Job, host: TargetHost) -> dict[str, Any]:
    """One reply, as it was written.

    The job's arguments: `messages`, system and user; `schema`; temperature, top_p, max_new_tokens and seed.
    """
    context = guide_context(job)
    schema = json.dumps(job.arguments["schema"])
    request = chat_request(host, context.target, job.arguments["messages"], job.arguments, json_schema=schema)
    [answer] = ask_for_guide(host, context, [request])
    used = {"prompt": len(request.input_ids), "cached": 0, "completion": answer["tokens"], "cost_usd": 0.0}
    return {**answer, "by": context.target.model, "usage": used}


def _tokens(result: Mapping[str, Any]) -> dict[str, float]:
    return {"target": sum(answer["tokens"] for answer in result.get("answers", [result]))}


@shared_task(name="gpu.rollout", base=JobTask, card="serves", bind=True)
def rollout_task(task: Task[Any, Any], run: RunId, key: ContentKey, attempt: Count) -> None:
    run_job((run, key, attempt), lambda job: roll_out(job, host_of(task)), _tokens)


@shared_task(name="gpu.prompt_lengths", base=JobTask, bind=True)
def prompt_lengths_task(task: Task[Any, Any], run: RunId, key: ContentKey, attempt: Count) -> None:
    run_job((run, key, attempt), lambda job: prompt_lengths(job, host_of(task)))


@shared_task(name="gpu.critique", base=JobTask, card="serves", bind=True)
def critique_on_target(task: Task[Any, Any], run: RunId, key: ContentKey, attempt: Count) -> None:
    run_job((run, key, attempt), lambda job: ask_itself(job, host_of(task)), _tokens)


@shared_task(name="gpu.propose", base=JobTask, card="serves", bind=True)
def propose_on_target(task: Task[Any, Any], run: RunId, key: ContentKey, attempt: Count) -> None:
    run_job((run, key, attempt), lambda job: ask_itself(job, host_of(task)), _tokens)
