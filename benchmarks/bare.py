"""The same tasks on the same queues with the same arguments and settings as the farm's, on Celery alone."""

from __future__ import annotations

from celery import Celery, chain, chord

from orchestrator.farm.producer import new_id
from tasks.plan import Plan, stage_refs
from tasks.queues import STAGE_TASKS, queue_of

BARE = "bare"  # in the ids of its chords, so that their counters can be told from the farm's


def bare_chord(app: Celery, plan: Plan) -> None:
    """Send the plan's tasks as one chord of chains, and wait for its end."""
    chains = []
    for candidate in plan.candidates:
        arguments = [("bench", plan.name, candidate.index, step.phase, 1) for step in stage_refs(candidate)]
        names = [f"{queue_of(STAGE_TASKS[s.stage])}.bare_{s.stage}" for s in stage_refs(candidate)]
        chains.append(chain(*(app.signature(n, args=a, immutable=True) for n, a in zip(names, arguments, strict=True))))
    body = app.signature("cpu.bare_gather", args=("bench", plan.name, 1), immutable=True)
    result = chord(chains, body, app=app, task_id=new_id(BARE)).apply_async(task_id=new_id(BARE))
    result.get(timeout=120)
    result.forget()
