"""The body of a plan's chord: all members have ended, so whoever waits may look."""

from __future__ import annotations

from celery import shared_task

from tasks import context


@shared_task(name="cpu.gather", ignore_result=True)
def gather(run: str, plan: str, dispatch: int) -> None:
    context.store().wake(run)
