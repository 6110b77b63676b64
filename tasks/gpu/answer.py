"""The answer stage: an individual answers its questions on the target, each answer kept as it comes."""

from __future__ import annotations

import dataclasses
import logging
import threading
import time
import uuid
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import lru_cache, partial
from typing import Any

from celery import shared_task

from tasks import context
from tasks.gpu import host, labels
from tasks.gpu.prompt import TOKENIZER, load_tokenizer, render, stop_ids
from tasks.gpu.target import Generated, GenerateRequest, TargetClient, TargetDown
from tasks.message import Count, PlanName, RunId
from tasks.models import Answer, Run, Target
from tasks.plan import Phase
from tasks.stage import Stage, StageTask, run_stage
from tasks.store.lock import claim
from tasks.task import go_on

log = logging.getLogger(__name__)
ALONE = threading.Lock()  # held by an individual that has a server of its own
GIVE_UP_AFTER_S = 300.0  # of a server that keeps dying without one answer in between
RETRY_S = 1.0  # with the same server; after that the worker is asked whether it lives


@dataclasses.dataclass(frozen=True)
class Questions:
    """A set of examples as the target reads them: rendered, tokenized, with the tokens that end an answer.

    `hashes` are of the prompts: a thousand numbers each, which every individual would have to write out otherwise.
    """

    ids: tuple[str, ...]
    prompts: tuple[tuple[int, ...], ...]
    hashes: tuple[str, ...]
    stops: tuple[int, ...]


@lru_cache(maxsize=4)
def questions(model_folder: str, system: str, template: str, examples: tuple[tuple[str, str, str], ...]) -> Questions:
    """Render each (id, context, question) through the model's chat template."""
    tokenizer = load_tokenizer(model_folder)
    prompts = tuple(tuple(render(tokenizer, system, template, text, question)) for _, text, question in examples)
    hashes = tuple(context.content_hash(list(prompt)) for prompt in prompts)
    return Questions(tuple(e[0] for e in examples), prompts, hashes, tuple(stop_ids(tokenizer)))


def answer_keys(run: Run, clustering: str, deltas: Sequence[float], asked: Questions, salt: str) -> list[str]:
    """The content key of each answer: all that determines it, and a salt where the cache is off."""
    target = run.target
    fixed = context.content_hash(
        [target.model, target.engine, target.dtype],
        [clustering, list(deltas)],
        dataclasses.asdict(target.sampling),
        list(asked.stops),
        salt,
    )
    return ["answer:" + context.content_hash(fixed, prompt) for prompt in asked.hashes]


def requests_for(
    target: Target, clustering: str, deltas: Sequence[float], asked: Questions, rids: Mapping[int, str]
) -> list[GenerateRequest]:
    """One request a question, each the first sample of its question and so with the seed itself (ruling 5)."""
    sampling = target.sampling
    return [
        GenerateRequest(
            input_ids=asked.prompts[j],
            max_new_tokens=sampling.max_new_tokens,
            temperature=sampling.temperature,
            top_p=sampling.top_p,
            seed=sampling.seed,
            stop_token_ids=asked.stops,
            deltas=tuple(deltas),
            clustering=clustering,
            rid=rid,
        )
        for j, rid in rids.items()
    ]


def answer_missing(stage: Stage, clustering: str, asked: Questions, keys: Sequence[str]) -> int:
    """Ask the target what has no answer yet.  Returns how many answers that were.

    A server that dies is brought back and asked for the rest.  Raises: TargetRefused for a request that no server
    would take; TargetUnavailable or TargetDown when the server does not come back; Cancelled.
    """
    there = stage.store.shared(stage.run.id, keys)
    target = stage.run.target
    rids = {keys.index(key): uuid.uuid4().hex for key in dict.fromkeys(keys) if key not in there}
    made = requests_for(target, clustering, stage.deltas(), asked, rids)
    requests = dict(zip(rids, made, strict=True))
    progress = time.monotonic()

    def keep(todo: Sequence[int], index: int, generated: Generated) -> None:
        nonlocal progress
        position = todo[index]
        answer = Answer(asked.ids[position], generated.text, generated.completion_tokens, generated.finish)
        usage = {"target": generated.completion_tokens}
        stage.store.put_shared(stage.run.id, keys[position], dataclasses.asdict(answer), usage)
        requests.pop(position)
        progress = time.monotonic()
        go_on(stage.store, stage.run.id)

    while requests:
        client = TargetClient(
            host.current().serve(target),
            timeout_s=target.request_timeout_s,
            concurrency=target.concurrency,
            api_key=host.current().api_key(target),
            retry_s=RETRY_S,
        )
        todo = list(requests)
        try:
            client.generate_many([requests[p] for p in todo], partial(keep, todo))
        except TargetDown as error:
            if time.monotonic() - progress > GIVE_UP_AFTER_S:
                raise
            log.warning("the target went away: %s", error)
    return len(rids)


def answer_stage(stage: Stage) -> dict[str, Any]:
    clustering = stage.store.metadata(stage.run.id, "clustering")
    if clustering is None:
        raise LookupError(f"run {stage.run.id} has no clustering")
    labels.place(stage.store.labels(clustering), clustering, host.current().labels_folder())
    examples = context.examples(stage.run.id, stage.candidate.examples)
    target = stage.run.target
    with TOKENIZER:
        asked = questions(
            host.current().model_folder(target),
            target.system_prompt,
            target.prompt_template,
            tuple((e.id, e.context, e.question) for e in examples),
        )
    salt = "" if stage.run.evaluation_cache else stage.node
    keys = answer_keys(stage.run, clustering, stage.deltas(), asked, salt)
    found, generated = stage.store.shared(stage.run.id, keys), 0
    if len(found) < len(set(keys)):
        with claim(stage.store.redis, f"answer:{context.content_hash(sorted(keys))}"), _life(stage):
            generated = answer_missing(stage, clustering, asked, keys)
        found = stage.store.shared(stage.run.id, keys)
    answers: list[Mapping[str, Any]] = [
        {"key": key, "tokens": found[key]["tokens"], "finish": found[key]["finish"]} for key in keys
    ]
    return {"answers": answers, "generated": generated}


@contextmanager
def _life(stage: Stage) -> Iterator[None]:
    """The server's life around an evaluation: nothing for one that stays.  Or the one that the specification gives it
    (section 5): stop, generate the processor, and start when the first question comes, for one individual at a time."""
    if stage.run.target.lifecycle == "resident":
        yield
        return
    from tasks.gpu.processor import generate

    with ALONE:
        host.current().stop()
        generate(stage.store, stage.run.id, "processor.py", stage.deltas())
        yield


@shared_task(name="gpu.answer", base=StageTask)
def answer_task(run: RunId, plan: PlanName, index: Count, phase: Phase, attempt: Count) -> None:
    run_stage("answer", (run, plan, index, phase, attempt), answer_stage)
