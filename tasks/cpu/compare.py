"""The job that compares what was deployed: the tables and verdicts of a run's claims."""

from __future__ import annotations

import json
from typing import Any

from celery import shared_task
from typing_extensions import TypedDict

from tasks.job import Job, JobTask, run_job
from tasks.message import ContentKey, Count, RunId
from tasks.route.claims import EvaluatedDeployment, Thresholds, compare_claims
from tasks.validation import parse_json


class CompareArguments(TypedDict):
    """The arguments of the job."""

    records: list[EvaluatedDeployment]
    claims: Thresholds


def compare_deployments(job: Job) -> dict[str, Any]:
    given = parse_json(CompareArguments, json.dumps(job.arguments))
    return compare_claims(given["records"], given["claims"])


@shared_task(name="cpu.compare", base=JobTask)
def compare_task(run: RunId, key: ContentKey, attempt: Count) -> None:
    run_job((run, key, attempt), compare_deployments)
