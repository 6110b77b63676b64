"""The body of a plan's chord: all candidates have ended, so whoever waits may look."""

from __future__ import annotations

from celery import shared_task

from tasks import context
from tasks.message import Count, PlanName, RunId


@shared_task(name="cpu.gather", ignore_result=True)
def gather(run: RunId, plan: PlanName, attempt: Count) -> None:
    context.store_of(run).notify(run)
