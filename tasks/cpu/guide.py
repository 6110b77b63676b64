"""The cpu jobs of a guided run: what a batch shows, what the gate decides, what a verifier says."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Mapping
from typing import Any, TypeVar

from celery import shared_task

from tasks.guide.batch import BatchInput, GateInput, VerifyInput, decide_gate, find_in_batch
from tasks.guide.verifier import verified
from tasks.job import Job, JobTask, run_job
from tasks.message import ContentKey, Count, RunId
from tasks.validation import parse_json

T = TypeVar("T")


def batch_signals(job: Job) -> dict[str, Any]:
    """A `BatchFindings` of the `BatchInput` that the job's arguments are."""
    return dataclasses.asdict(find_in_batch(_read(BatchInput, job.arguments)))


def gate_decision(job: Job) -> dict[str, Any]:
    """A `GateDecision` on the `GateInput` that the job's arguments are."""
    return dataclasses.asdict(decide_gate(_read(GateInput, job.arguments)))


def verify_candidates(job: Job) -> dict[str, Any]:
    """{"verified": [{"verifier_score", "verifier_tags"} of each candidate]}; the arguments are a `VerifyInput`."""
    return {"verified": verified(_read(VerifyInput, job.arguments))}


def _read(kind: type[T], arguments: Mapping[str, Any]) -> T:
    return parse_json(kind, json.dumps(arguments))


@shared_task(name="cpu.signals", base=JobTask)
def signals_task(run: RunId, key: ContentKey, attempt: Count) -> None:
    run_job((run, key, attempt), batch_signals)


@shared_task(name="cpu.gate", base=JobTask)
def gate_task(run: RunId, key: ContentKey, attempt: Count) -> None:
    run_job((run, key, attempt), gate_decision)


@shared_task(name="cpu.verify", base=JobTask)
def verify_task(run: RunId, key: ContentKey, attempt: Count) -> None:
    run_job((run, key, attempt), verify_candidates)
