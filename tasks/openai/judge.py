"""Verdicts of the judge: the judge stage of an evaluation."""

from __future__ import annotations

import contextvars
import dataclasses
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from celery import shared_task

from tasks.common.validation import Count, PlanName, RunId
from tasks.judging.graders import Grader, ThreeStages, make_grader, title_of
from tasks.judging.verdict import JudgeReply, judge
from tasks.openai.calls import ask_until_usable, client_for
from tasks.openai.client import Messages, OpenAIClient
from tasks.openai.endpoint import name_of
from tasks.plan import Phase
from tasks.records import Example, Judge, Run
from tasks.stage import Stage, StageTask, run_stage
from tasks.store.client import hold_lock
from tasks.store.keys import content_hash
from tasks.store.store import Store
from tasks.task import raise_if_cancelled


def verdict_record(
    client: OpenAIClient,
    settings: Judge,
    call_id: str,
    row: tuple[str, str, str],
    store: Store | None = None,
    run_id: str = "",
) -> dict[str, Any]:
    """The verdict on (question, gold, answer) as the store keeps it; `by` names who decided, "" for stage 1."""
    by = [""]

    def ask(messages: Messages) -> JudgeReply:
        found, written = ask_until_usable(client, messages, JudgeReply, settings, call_id, store, run_id)
        by.append(written.provider)
        return found

    verdict = judge(*row, settings, ask)
    return {**dataclasses.asdict(verdict), "by": by[-1]}


def grader_of(run: Run) -> Grader:
    """The run's judge; where it is the three stages, for keys alone."""
    return make_grader(run.judge.name, lambda: ThreeStages(run.judge, _no_call, name_of(run.endpoint)))


def _no_call(messages: Messages) -> JudgeReply:
    raise AssertionError("keys of verdicts need no call")


def judge_missing(
    stage: Stage, grader: Grader, examples: Sequence[Example], texts: Sequence[str], keys: Sequence[str]
) -> int:
    """Judge what has no verdict yet, `concurrency` answers at a time.  Returns how many there were.

    Each verdict is kept as it arrives, so a retry asks only for the rest.  The first error is raised when all calls in
    flight have ended.
    """
    store, run = stage.store, stage.run
    available = store.shared(run.id, keys)
    todo = {key: (e, t) for key, e, t in zip(keys, examples, texts, strict=True) if key not in available}
    if not todo:
        return 0

    def judge_one(key: str) -> None:
        example, text = todo[key]
        row = (example.question, example.gold, text)
        if grader.needs_model:
            client, call_id = client_for(store, run.id, run.endpoint), f"{run.id}-{key.replace(':', '-')}"
            verdict = verdict_record(client, run.judge, call_id, row, store, run.id)
        else:
            raise_if_cancelled(store, run.id)
            verdict = {**dataclasses.asdict(grader.grade(*row)), "by": title_of(run.judge.name)}
        store.put_shared(run.id, key, verdict)

    with ThreadPoolExecutor(run.judge.concurrency) as pool:
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
