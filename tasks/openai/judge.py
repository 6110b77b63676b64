"""Verdicts of the judge: the judge stage of an evaluation, and the verdict on one compressed answer of a collection."""

from __future__ import annotations

import contextvars
import dataclasses
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from celery import shared_task

from tasks.collect.collection import SampleJob, sample_job
from tasks.common.validation import ContentKey, Count, PlanName, RunId
from tasks.job import JobTask, run_job
from tasks.judging.grader import Grader, ThreeStages, make_grader, title_of
from tasks.judging.verdict import Ask, JudgeReplyError, judge
from tasks.openai.calls import (
    ReplyCounter,
    StoredReplyCounter,
    client_for,
    raised_seed,
    repeat_unusable,
    repeated_call_id,
)
from tasks.openai.client import OpenAIClient
from tasks.openai.endpoint import name_of
from tasks.plan import Phase
from tasks.records import Example, Judge, Run
from tasks.stage import Stage, StageTask, run_stage
from tasks.store.client import hold_lock
from tasks.store.keys import content_hash
from tasks.task import raise_if_cancelled


def ask_judge(
    client: OpenAIClient, settings: Judge, call_id: str, answered_by: Callable[[str], None], counter: ReplyCounter
) -> Ask:
    """One call to the judge, as `tasks.judging` expects it; `answered_by` is called with who wrote the reply.

    After unusable replies, which `counter` counts, the seed is another one.
    """

    def ask(system: str, user: str, schema_name: str, schema: dict[str, Any]) -> dict[str, Any]:
        offset = counter.read()
        reply = client.ask(
            system,
            user,
            model=settings.model,
            schema_name=schema_name,
            schema=schema,
            temperature=settings.temperature,
            top_p=settings.top_p,
            max_completion_tokens=settings.max_completion_tokens,
            seed=raised_seed(settings.seed, offset),
            call_id=repeated_call_id(call_id, offset),
        )
        answered_by(reply.provider)
        return dict(reply.data)

    return ask


def verdict_record(
    client: OpenAIClient, settings: Judge, call_id: str, row: tuple[str, str, str], counter: ReplyCounter
) -> dict[str, Any]:
    """The verdict on (question, gold, answer) as the store keeps it; `by` names who decided, "" for stage 1.

    A reply that cannot be used is asked for again with another seed.
    """
    by: list[str] = []
    ask = ask_judge(client, settings, call_id, by.append, counter)
    verdict = repeat_unusable(lambda: judge(*row, settings, ask), counter, (JudgeReplyError,))
    return {**dataclasses.asdict(verdict), "by": by[-1] if by else ""}


def grader_of(run: Run) -> Grader:
    """The run's judge; where it is the three stages, for keys alone."""
    return make_grader(run.judge.name, lambda: ThreeStages(run.judge, _no_call, name_of(run.endpoint)))


def _no_call(system: str, user: str, schema_name: str, schema: dict[str, Any]) -> dict[str, Any]:
    raise AssertionError("keys of verdicts need no call")


def graded_record(grader: Grader, name: str, row: tuple[str, str, str]) -> dict[str, Any]:
    """The verdict of a judge without a model, as the store keeps it."""
    return {**dataclasses.asdict(grader.grade(*row)), "by": title_of(name)}


def judge_missing(
    stage: Stage, grader: Grader, examples: Sequence[Example], texts: Sequence[str], keys: Sequence[str]
) -> int:
    """Judge what has no verdict yet, `concurrency` answers at a time.  Returns how many there were.

    Each verdict is kept as it arrives, so a retry asks only for the rest.  The first error is raised when all calls in
    flight have ended.
    """
    available = stage.store.shared(stage.run.id, keys)
    todo = {key: (e, t) for key, e, t in zip(keys, examples, texts, strict=True) if key not in available}
    if not todo:
        return 0
    settings = stage.run.judge

    def judge_one(key: str) -> None:
        example, text = todo[key]
        row = (example.question, example.gold, text)
        if grader.needs_model:
            client = client_for(stage.store, stage.run.id, stage.run.endpoint)
            counter = StoredReplyCounter(stage.store, stage.run.id, key)
            verdict = verdict_record(client, settings, f"{stage.run.id}-{key.replace(':', '-')}", row, counter)
        else:
            raise_if_cancelled(stage.store, stage.run.id)
            verdict = graded_record(grader, settings.name, row)
        stage.store.put_shared(stage.run.id, key, verdict)

    with ThreadPoolExecutor(settings.concurrency) as pool:
        futures = [pool.submit(contextvars.copy_context().run, judge_one, key) for key in todo]
    for future in futures:
        future.result()
    return len(todo)


def judge_stage(stage: Stage) -> dict[str, Any]:
    answers = stage.need("answer")["answers"]
    stored = stage.store.shared(stage.run.id, [a["key"] for a in answers])
    texts = [stored[a["key"]]["text"] for a in answers]
    examples = stage.examples()
    grader = grader_of(stage.run)
    hashes = [grader.key(e.question, e.gold, text) for e, text in zip(examples, texts, strict=True)]
    if salt := stage.cache_salt:
        hashes = [content_hash(found, salt) for found in hashes]
    keys = [f"verdict:{found}" for found in hashes]
    with hold_lock(stage.store.redis, f"judge:{content_hash(sorted(keys))}"):
        judged = judge_missing(stage, grader, examples, texts, keys)
    verdicts = stage.store.shared(stage.run.id, keys)
    stage.store.add_providers(stage.run.id, "judge", {v.get("by", "") for v in verdicts.values()} - {""})
    listed = [{"key": key, "is_correct": verdicts[key]["is_correct"]} for key in keys]
    return {"verdicts": listed, "judged": judged}


@shared_task(name="openai.judge", base=StageTask)
def judge_task(run: RunId, plan: PlanName, index: Count, phase: Phase, attempt: Count) -> None:
    run_stage("judge", (run, plan, index, phase, attempt), judge_stage)


def judge_sample(job: SampleJob) -> dict[str, Any]:
    collection, store, run = job.collection, job.job.store, job.job.run
    client = client_for(store, run, collection.judge_endpoint)
    [compressed] = job.texts()
    row, counter = (job.example.question, job.example.gold, compressed), StoredReplyCounter(store, run, job.job.key)
    verdict = verdict_record(client, collection.judge, job.job.call_id, row, counter)
    if verdict["by"]:
        store.add_providers(run, "judge", [verdict["by"]])
    return verdict


@shared_task(name="openai.verdict", base=JobTask)
def verdict_task(run: RunId, key: ContentKey, attempt: Count) -> None:
    run_job((run, key, attempt), lambda job: judge_sample(sample_job(job)))
