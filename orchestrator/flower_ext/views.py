"""How a task and a run are shown: what a task belongs to, what its run has cost, whether it can be retried."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from orchestrator.flower_ext.retry_policy import ObservedTask, RetryRejected, run_of_task
from orchestrator.flower_ext.run_index import RunView
from orchestrator.flower_ext.state import Monitor, RetryView
from tasks.failure import Failure
from tasks.labels import parse_label

COLUMNS = {"run": "Run", "generation": "Generation", "individual": "Individual", "retry": "Retry"}
SHOWN = "name,state,run,generation,individual,received,runtime,worker,retry"
OF_A_TASK = ("run", "generation", "individual", "run_cost_so_far", "retry")
BADGES = {
    "running": "task-state-started",
    "finished": "text-bg-success",
    "parked": "text-bg-danger",
    "stopped": "text-bg-warning",
    "unreadable": "text-bg-danger",
}


def add_run_fields(task: Any, monitor: Monitor) -> Any:
    """Flower's task with the fields OF_A_TASK, as text.  Changes the task that it is given, a copy."""
    shown = parse_label(task.args or "")
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
    seen = ObservedTask(task.name or "", task.state, view.run)
    try:
        run_of_task(task.uuid, seen, monitor.views)
    except RetryRejected:
        return "retried since"
    return "now" if monitor.may_retry(view.run) else "at work"


@dataclass(frozen=True)
class RunRow:
    """A run as the page of runs shows it."""

    run: str
    kind: str
    state: str
    badge: str
    progress: str
    figures: str
    calls: str
    tokens: str
    cost: str
    reason: str
    failed: tuple[Failure, ...]
    may_retry: bool
    retry: RetryView | None


def make_row(view: RunView, monitor: Monitor) -> RunRow:
    status = view.status
    return RunRow(
        run=view.run,
        kind=status.kind if status else "",
        state=view.state,
        badge=BADGES.get(view.state, "text-bg-secondary"),
        progress=status.progress if status else "",
        figures=status.summary if status else "",
        calls=f"{view.calls:,}",
        tokens=f"{view.tokens:,}",
        cost=_cost(view),
        reason=status.reason if status and status.state in ("parked", "stopped") and not view.failed else view.problem,
        failed=view.failed,
        may_retry=monitor.may_retry(view.run),
        retry=monitor.retries.view(view.run),
    )


def as_json(view: RunView, monitor: Monitor) -> Mapping[str, Any]:
    """A run as the API returns it."""
    status, retry = view.status, monitor.retries.view(view.run)
    return {
        "run": view.run,
        "kind": status and status.kind,
        "state": view.state,
        "unit": status and status.unit,
        "done": status and status.done,
        "total": status and status.total,
        "figures": dict(status.figures) if status else {},
        "calls": view.calls,
        "target_tokens": view.tokens,
        "cost_usd": None if view.cost_usd is None else round(view.cost_usd, 6),
        "budget_usd": status and status.budget_usd,
        "reason": status.reason if status else view.problem or None,
        "failed": [vars(failed) for failed in view.failed],
        "may_retry": monitor.may_retry(view.run),
        "retry": retry and vars(retry),
    }


def _cost(view: RunView) -> str:
    budget = view.status.budget_usd if view.status else 0.0
    if view.cost_usd is None:
        return "unknown"
    return f"${view.cost_usd:,.4f}" + (f" of ${budget:,.2f}" if budget else "")
