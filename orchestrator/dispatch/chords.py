"""A plan as a flat chord: one chain of stages a candidate, and a body that wakes the driver.

The chord is the trigger; what counts is the plan's record in the store.  So a chain holds only the stages that
have left no record yet, and its messages name run, plan, candidate, phase and attempt, never a text.
"""

from __future__ import annotations

from collections.abc import Container, Sequence

from celery import Celery, chain, chord
from celery.canvas import Signature

from orchestrator.dispatch.producer import new_id
from tasks.plan import Candidate, StageRef, stage_refs
from tasks.queues import STAGE_TASKS


def send(
    app: Celery,
    run_id: str,
    plan_name: str,
    candidates: Sequence[Candidate],
    recorded: Container[str],
    attempt: int,
    limit_s: float | None = None,
) -> None:
    """Send the missing stages of `candidates` to the farm, as one chord; `limit_s` is the hard limit of each stage."""

    def signature(ref: StageRef) -> Signature:
        arguments = (run_id, plan_name, ref.index, ref.phase, attempt)
        return app.signature(STAGE_TASKS[ref.stage], args=arguments, immutable=True, time_limit=limit_s)

    missing = [[ref for ref in stage_refs(candidate) if ref.field not in recorded] for candidate in candidates]
    # The longest chain first: one that began last would go on alone, with all GPUs but one idle.
    missing.sort(key=len, reverse=True)
    chains = [chain(*map(signature, todo)) if len(todo) > 1 else signature(todo[0]) for todo in missing]
    body = app.signature("cpu.gather", args=(run_id, plan_name, attempt), immutable=True)
    # The chord's own id becomes the header's, the other one the body's.
    chord(chains, body, app=app, task_id=new_id(run_id)).apply_async(task_id=new_id(run_id))
