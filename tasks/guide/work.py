"""What workers do for a guided run.  A target answers tickets, and may criticise and propose; or an endpoint does.

Arguments and results are those of tasks/guide/jobs.py.  A reply of critic or reflector is kept as it came: whoever
asked decides whether it can be used.

A verifier of the user's own, `verify(ticket, candidate) -> (score, tags)`, gets `Ticket` and `GuideCandidate` as
dictionaries, and must return the same for the same values.  It runs in a process of its own (`tasks.common.named`).
"""

from __future__ import annotations

import dataclasses
import functools
import json
import math
from collections.abc import Mapping, Sequence
from typing import Any

from celery import Task, shared_task

from tasks.common.named import ChildFunction, ChildFunctionError
from tasks.common.validation import adapter
from tasks.gpu.host import TargetHost, ask_target, host_of
from tasks.gpu.jobs import known_context
from tasks.gpu.prompt import TOKENIZER_LOCK, answer_ends, load_tokenizer, render_chat
from tasks.gpu.target import Generated, GenerateRequest
from tasks.guide.jobs import GUIDE, GuideContext
from tasks.guide.replies import Critique, GuideProposal
from tasks.openai.calls import TRIES, client_for
from tasks.openai.endpoint import UnusableReplyError, Usage, cost_usd
from tasks.openai.reply import Reply, usable_text
from tasks.records import Reflector
from tasks.task import Job, JobTask, run_job

VERIFIERS, PARAMETERS = "whetstone.verifiers", ("ticket", "candidate")


def ask(
    host: TargetHost,
    context: GuideContext,
    messages: Sequence[str],
    samplings: Sequence[Mapping[str, Any]],
    **form: Any,
) -> tuple[int, list[dict[str, Any]]]:
    """The tokens of a prompt, and its answer for each sampling, all in flight at once: text, tokens and finish.

    A sampling has temperature, top_p, max_new_tokens, seed and perhaps the texts `stop`; `form` is `regex` or
    `json_schema`.  The finish is "stop" at the end of the turn, "stop_string" at a text of `stop`, "length" where the
    answer was cut.
    """
    with TOKENIZER_LOCK:
        tokenizer = load_tokenizer(host.model_folder(context.target))
        prompt, ends = tuple(render_chat(tokenizer, *messages)), tuple(sorted(answer_ends(tokenizer)))
    requests = {
        number: GenerateRequest(
            input_ids=prompt,
            max_new_tokens=one["max_new_tokens"],
            temperature=one["temperature"],
            top_p=one["top_p"],
            seed=one["seed"],
            stop_token_ids=ends,
            stop=tuple(one.get("stop", ())),
            **form,
        )
        for number, one in enumerate(samplings)
    }
    found: dict[int, Generated] = {}
    ask_target(host, context.target, requests, found.__setitem__, identity=context.server)
    answers = [found[number] for number in requests]
    return len(prompt), [
        {"text": a.text, "tokens": a.completion_tokens, "finish": "stop_string" if a.stop_text else a.finish}
        for a in answers
    ]


def roll_out(job: Job, host: TargetHost) -> dict[str, Any]:
    """One answer for each seed."""
    given = job.arguments
    samplings = [{**given["cell"], "seed": seed} for seed in given["seeds"]]
    tokens, answers = ask(host, job.context(GUIDE, GuideContext), given["messages"], samplings, regex=given["regex"])
    return {"answers": answers, "prompt_tokens": tokens}


def prompt_lengths(job: Job, host: TargetHost) -> dict[str, Any]:
    target = job.context(GUIDE, GuideContext).target
    host.start_early(target)  # the first job of a run: the server loads its model meanwhile
    model = host.model_folder(target)
    with TOKENIZER_LOCK:
        tokenizer = load_tokenizer(model)
        tokens = [len(render_chat(tokenizer, *messages)) for messages in job.arguments["prompts"]]
        return {"tokens": tokens, "context": known_context(target, model, host)}


def ask_itself(job: Job, host: TargetHost) -> dict[str, Any]:
    """A critique or a proposal of the target."""
    context, given = job.context(GUIDE, GuideContext), job.arguments
    schema = json.dumps(given["schema"])
    tokens, [answer] = ask(host, context, given["messages"], [given], json_schema=schema)
    used = {"prompt": tokens, "cached": 0, "completion": answer["tokens"], "cost_usd": 0.0}
    return {**answer, "by": context.target.model, "usage": used}


def ask_endpoint(job: Job, name: str, kind: type) -> dict[str, Any]:
    """A critique or a proposal of the endpoint, in the strict schema of its type.

    Where the endpoint itself refuses the reply, another one is asked for; the last one is kept with the reason.
    """
    from openai.lib._pydantic import to_strict_json_schema

    context, given = job.context(GUIDE, GuideContext), job.arguments
    if context.endpoint is None:
        raise ValueError("the run has no endpoint")
    settings = Reflector(
        context.endpoint_model, *(given[n] for n in ("temperature", "top_p", "max_new_tokens", "seed"))
    )
    (system, user), schema = given["messages"], to_strict_json_schema(adapter(kind))
    client = client_for(job.store, job.run, context.endpoint)
    for repeated in range(TRIES):
        try:
            written = client.write((system, user), name, schema, settings, job.call_id, repeated)
            break
        except UnusableReplyError as error:
            written = Reply(error.raw, error.message, Usage(), "", settings.model)
    job.store.add_providers(job.run, "reflector", [written.provider])
    used = dataclasses.asdict(written.usage)
    return {
        "text": usable_text(kind, written.text),
        "finish": written.finish,
        "by": written.provider,
        "tokens": written.usage.completion,
        "usage": {name: used[name] for name in ("prompt", "cached", "completion")}
        | {"cost_usd": cost_usd(written.usage, context.endpoint)},
    }


@functools.cache
def load_verifier(name: str) -> ChildFunction:
    """The function of this name.  Another source has another `identity`."""
    try:
        return ChildFunction(name, VERIFIERS, PARAMETERS)
    except ChildFunctionError as error:
        raise ChildFunctionError(f"the verifier {name!r} cannot be loaded: {error}") from None


def verify_candidates(arguments: Mapping[str, Any]) -> dict[str, Any]:
    name = arguments["verifier"]
    verifier = load_verifier(name)
    if verifier.identity != arguments["identity"]:
        raise ChildFunctionError(f"the source of the verifier {name} here is not that of the command's machine")

    def verified(candidate: Mapping[str, Any]) -> dict[str, Any]:
        try:
            result = verifier(arguments["ticket"], candidate)
        except ChildFunctionError as error:
            raise ChildFunctionError(f"the verifier {name} failed: {error}") from None
        match result:
            case [int() | float() as score, list() as tags] if not isinstance(score, bool):
                if math.isfinite(score) and all(isinstance(tag, str) for tag in tags):
                    return {"verifier_score": float(score), "verifier_tags": tags}
        raise ChildFunctionError(f"the verifier {name} returned no finite score with a list of tags")

    return {"verified": [verified(candidate) for candidate in arguments["candidates"]]}


def _tokens(result: Mapping[str, Any]) -> dict[str, float]:
    return {"target": sum(answer["tokens"] for answer in result.get("answers", [result]))}


@shared_task(name="gpu.rollout", base=JobTask, card="serves", bind=True)
def rollout_task(task: Task[Any, Any], run: str, key: str, attempt: int) -> None:
    run_job((run, key, attempt), lambda job: roll_out(job, host_of(task)), _tokens)


@shared_task(name="gpu.prompt_lengths", base=JobTask, bind=True)
def prompt_lengths_task(task: Task[Any, Any], run: str, key: str, attempt: int) -> None:
    run_job((run, key, attempt), lambda job: prompt_lengths(job, host_of(task)))


@shared_task(name="gpu.critique", base=JobTask, card="serves", bind=True)
def critique_on_target(task: Task[Any, Any], run: str, key: str, attempt: int) -> None:
    run_job((run, key, attempt), lambda job: ask_itself(job, host_of(task)), _tokens)


@shared_task(name="gpu.propose", base=JobTask, card="serves", bind=True)
def propose_on_target(task: Task[Any, Any], run: str, key: str, attempt: int) -> None:
    run_job((run, key, attempt), lambda job: ask_itself(job, host_of(task)), _tokens)


@shared_task(name="openai.critique", base=JobTask)
def critique_by_endpoint(run: str, key: str, attempt: int) -> None:
    run_job((run, key, attempt), lambda job: ask_endpoint(job, "critique", Critique))


@shared_task(name="openai.propose", base=JobTask)
def propose_by_endpoint(run: str, key: str, attempt: int) -> None:
    run_job((run, key, attempt), lambda job: ask_endpoint(job, "proposal", GuideProposal))


@shared_task(name="cpu.verify", base=JobTask)
def verify_task(run: str, key: str, attempt: int) -> None:
    run_job((run, key, attempt), lambda job: verify_candidates(job.arguments))
