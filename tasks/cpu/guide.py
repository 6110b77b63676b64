"""What a verifier says of the candidates of a ticket."""

from __future__ import annotations

import json
from typing import Any

from celery import shared_task

from tasks.common.validation import ContentKey, Count, RunId, parse_json
from tasks.guide.jobs import VerifyInput
from tasks.guide.verifier import verified
from tasks.job import Job, JobTask, run_job


def verify_candidates(job: Job) -> dict[str, Any]:
    """{"verified": [{"verifier_score", "verifier_tags"} of each candidate]}; the arguments are a `VerifyInput`."""
    return {"verified": verified(parse_json(VerifyInput, json.dumps(job.arguments)))}


@shared_task(name="cpu.verify", base=JobTask)
def verify_task(run: RunId, key: ContentKey, attempt: Count) -> None:
    run_job((run, key, attempt), verify_candidates)
