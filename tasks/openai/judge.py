"""Verdicts of the judge: the judge stage of an evaluation."""

from __future__ import annotations

import contextvars
import dataclasses
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from celery import shared_task

from tasks.judging.graders import Grader, make_grader, title_of
from tasks.judging.verdict import JudgeReply, judge, verdict_key
from tasks.openai.calls import ask_until_usable, client_for
from tasks.openai.client import Messages, OpenAIClient
from tasks.openai.endpoint import UnusableReplyError, name_of
from tasks.plan import Phase
from tasks.records import Judge, Verdict
from tasks.stage import Stage, StageTask, run_stage
from tasks.store.client import hold_lock
from tasks.store.keys import content_hash
from tasks.store.store import Store
from tasks.task import raise_if_cancelled

WITHOUT_GOLD = Verdict(False, 1, 1.0, "text", "the question has no right answer")


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


def judge_missing(
    stage: Stage, grader: Grader | None, rows: Sequence[tuple[str, str, str]], keys: Sequence[str]
) -> int:
    """Judge what has no verdict yet, `concurrency` answers at a time.  Returns how many there were.

    Each verdict is kept as it arrives, so a retry asks only for the rest.  The first error is raised when all calls in
    flight have ended.
    """
    store, run = stage.store, stage.run
    available = store.shared(run.id, keys)
    todo = {key: row for key, row in zip(keys, rows, strict=True) if key not in available}
    if not todo:
        return 0
    ids = {key: example.id for key, example in zip(keys, stage.examples(), strict=True)}

    def judge_one(key: str) -> None:
        row = todo[key]
        if not row[1]:
            verdict = {**dataclasses.asdict(WITHOUT_GOLD), "by": ""}
        elif grader is None:
            client, call_id = client_for(store, run.id, run.endpoint), f"{run.id}-{key.replace(':', '-')}"
            try:
                verdict = verdict_record(client, run.judge, call_id, row, store, run.id)
            except UnusableReplyError as error:
                raise UnusableReplyError(f"question {ids[key]}: {error.message}", error.raw) from error
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
    grader, settings, address = make_grader(stage.run.judge.name), stage.run.judge, name_of(stage.run.endpoint)
    rows = [(e.question, e.gold, text) for e, text in zip(stage.examples(), texts, strict=True)]
    hashes = [grader.key(*row) if grader else verdict_key(*row, settings, address) for row in rows]
    if salt := stage.cache_salt:
        hashes = [content_hash(found, salt) for found in hashes]
    keys = [f"verdict:{found}" for found in hashes]
    with hold_lock(stage.store.redis, f"judge:{content_hash(sorted(keys))}"):
        judged = judge_missing(stage, grader, rows, keys)
    verdicts = stage.store.shared(stage.run.id, keys)
    stage.store.add_providers(stage.run.id, "judge", {v.get("by", "") for v in verdicts.values()} - {""})
    listed = [{"key": key, "is_correct": verdicts[key]["is_correct"]} for key in keys]
    return {"verdicts": listed, "judged": judged}


@shared_task(name="openai.judge", base=StageTask)
def judge_task(run: str, plan: str, index: int, phase: Phase, attempt: int) -> None:
    run_stage("judge", (run, plan, index, phase, attempt), judge_stage)
