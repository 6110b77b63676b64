"""Which server answers for a target and which model it has, for the driver of a run: the keys of answers cover it."""

from __future__ import annotations

import dataclasses
import json
from typing import Any

from celery import shared_task

from tasks.common.validation import ContentKey, Count, RunId, parse_json
from tasks.gpu import host
from tasks.gpu.processor import check_of
from tasks.job import JobTask, run_job
from tasks.records import Target


def identify_server(target: Target) -> dict[str, Any]:
    """{"server": the identity of the target's server, "model": its `ModelCheck`}."""
    return {"server": dict(host.current().identity(target)), "model": dataclasses.asdict(check_of(target))}


@shared_task(name="gpu.identity", base=JobTask, card="serves")
def identity_task(run: RunId, key: ContentKey, attempt: Count) -> None:
    """The job's arguments: `target`, as `dataclasses.asdict` has it."""
    run_job((run, key, attempt), lambda job: identify_server(parse_json(Target, json.dumps(job.arguments["target"]))))
