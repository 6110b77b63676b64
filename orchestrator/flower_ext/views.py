"""How a task and a run are shown: what a task belongs to, what its run has cost, whether it can be retried."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from orchestrator.dispatch.failures import Failed
from orchestrator.flower_ext.retries import RetryView
from orchestrator.flower_ext.retry_policy import Refused, Seen, run_of_task
from orchestrator.flower_ext.run_index import RunView
from orchestrator.flower_ext.state import Monitor
from tasks.labels import read

COLUMNS = {"run": "Run", "generation": "Generation", "individual": "Individual", "retry": "Retry"}
SHOWN = "name,state,run,generation,individual,received,runtime,worker,retry"
OF_A_TASK = ("run", "generation", "individual", "run_cost_so_far", "retry")
BADGES = {
    "running": "task-state-started",
    "finished": "text-bg-success",
    "parked": "text-bg-danger",
    "stopped": "text-bg-warning",
}


def with_run(task: Any, monitor: Monitor) -> Any:
    """Flower's task with the fields OF_A_TASK, as text.  Changes the task that it is given, a copy."""
    shown = read(task.args or "")
    view = monitor.views.get(shown.run)
    task.run, task.generation, task.individual = shown.run, shown.generation, shown.individual
    task.run_cost_so_far = f"{_cost(view)} for {view.calls:,} calls" if view else None
    task.retry = _retry(task, view, monitor) if task.state == "FAILURE" else ""
    task._fields = (*(name for name in OF_A_TASK if name != "retry"), *task._fields, "retry")
    return task


def _retry(task: Any, view: RunView | None, monitor: Monitor) -> str:
    """ "now", or why not in a few words."""
    if view is None:
        return ""
    seen = Seen(task.name or "", task.state, view.run)
    try:
        run_of_task(task.uuid, seen, monitor.views)
    except Refused:
        return "retried since"
    return "now" if monitor.may_retry(view.run) else "at work"


@dataclass(frozen=True)
class Row:
    """A run as the page of runs shows it."""

    run: str
    state: str
    badge: str
    generations: str
    best: str
    correct: str
    calls: str
    tokens: str
    cost: str
    reason: str
    failed: tuple[Failed, ...]
    may_retry: bool
    retry: RetryView | None


def row(view: RunView, monitor: Monitor) -> Row:
    standing = view.standing
    return Row(
        run=view.run,
        state=view.state,
        badge=BADGES.get(view.state, "text-bg-secondary"),
        generations="" if standing is None else f"{standing.generation} of {standing.generations or '?'}",
        best=_number(standing.best_fitness if standing else None, ".4f"),
        correct=_number(standing.correctness if standing else None, ".1%"),
        calls=f"{view.calls:,}",
        tokens=f"{view.tokens:,}",
        cost=_cost(view),
        reason=standing.reason if standing and standing.state == "parked" and not view.failed else "",
        failed=view.failed,
        may_retry=monitor.may_retry(view.run),
        retry=monitor.retries.view(view.run),
    )


def as_json(view: RunView, monitor: Monitor) -> Mapping[str, Any]:
    """A run as the API tells it."""
    standing, retry = view.standing, monitor.retries.view(view.run)
    return {
        "run": view.run,
        "state": view.state,
        "generation": standing and standing.generation,
        "generations": standing and standing.generations,
        "best_fitness": standing and standing.best_fitness,
        "calls": view.calls,
        "target_tokens": view.tokens,
        "cost_usd": round(view.cost_usd, 6),
        "budget_usd": standing and standing.budget_usd,
        "reason": standing and standing.reason,
        "failed": [vars(failed) for failed in view.failed],
        "may_retry": monitor.may_retry(view.run),
        "retry": retry and vars(retry),
    }


def _cost(view: RunView) -> str:
    budget = view.standing.budget_usd if view.standing else 0.0
    return f"${view.cost_usd:,.4f}" + (f" of ${budget:,.2f}" if budget else "")


def _number(value: float | None, form: str) -> str:
    return "" if value is None else format(value, form)
