"""A plan as a flat chord: one chain of stages a member, and a body that wakes the driver.

The chord is the trigger; what counts is the plan's record in the store.  So a chain holds only the stages that
have left no record yet, and its messages name run, plan, member, phase and dispatch, never a text.
"""

from __future__ import annotations

from collections.abc import Container, Sequence

from celery import Celery, chain, chord
from celery.canvas import Signature

from orchestrator.dispatch.producer import new_id
from tasks.plan import QUEUE_OF, Member, Step, steps


def send(
    app: Celery,
    run_id: str,
    plan_name: str,
    members: Sequence[Member],
    recorded: Container[str],
    dispatch: int,
    limit_s: float | None = None,
) -> None:
    """Send the missing stages of `members` to the farm, as one chord; `limit_s` is the hard limit of each stage."""

    def signature(step: Step) -> Signature:
        queue = QUEUE_OF[step.stage]
        arguments = (run_id, plan_name, step.index, step.phase, dispatch)
        return app.signature(f"{queue}.{step.stage}", args=arguments, immutable=True, time_limit=limit_s)

    missing = [[step for step in steps(member) if step.field not in recorded] for member in members]
    # The longest chain first: one that began last would go on alone, with all GPUs but one idle.
    missing.sort(key=len, reverse=True)
    chains = [chain(*map(signature, todo)) if len(todo) > 1 else signature(todo[0]) for todo in missing]
    body = app.signature("cpu.gather", args=(run_id, plan_name, dispatch), immutable=True)
    # The chord's own id becomes the header's, the other one the body's.
    chord(chains, body, app=app, task_id=new_id(run_id)).apply_async(task_id=new_id(run_id))
