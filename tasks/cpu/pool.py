"""The job that makes the teacher's rows: templated hacks and honest completions of the pool's problems, graded."""

from __future__ import annotations

import dataclasses
from typing import Any

from celery import shared_task

from tasks.common.validation import ContentKey, Count, RunId
from tasks.job import Job, JobTask, run_job
from tasks.routing.grading import grading_pool
from tasks.routing.pool import build_pool
from tasks.routing.problems import parse_problems


def make_pool(job: Job) -> dict[str, Any]:
    """{"rows": a `PoolRow` each}."""
    [found] = job.results([job.arguments["inputs"]["data"]["problems"]])
    problems = parse_problems(found["text"], "problems")
    with grading_pool() as grading:
        return {"rows": [dataclasses.asdict(row) for row in build_pool(problems, grading)]}


@shared_task(name="cpu.pool", base=JobTask)
def pool_task(run: RunId, key: ContentKey, attempt: Count) -> None:
    run_job((run, key, attempt), make_pool)
