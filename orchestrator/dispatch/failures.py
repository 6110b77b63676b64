"""What failed in a run: read from the plans' records, and found again by what a person calls it.

Retrying what failed, without a driver or under the eyes of one.

A failed message is not sent again: its chord has ended.  What the candidate still misses is sent as a new chord under
the attempt that the plan has, and so whoever waits for the plan goes on waiting and finds the candidate done.  Without
anybody who waits, the results lie in the record until the run is started again.
"""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from celery import Celery

from orchestrator.dispatch.chords import send
from tasks.plan import Plan, outcome
from tasks.store.store import Store

SHORTEST_ID = 6  # of the beginning of a task's id that may stand for it


@dataclass(frozen=True)
class Failed:
    """A candidate that a stage gave up on.

    `node` is the individual's id in the tree, `task` Celery's id of the task, `tries` how often the stage has failed in
    all, `at` the time in seconds of the epoch, `prompt` the file of its last call in reflector_prompts, or "".
    """

    plan: str
    generation: int
    index: int
    node: str
    stage: str
    error: str
    task: str
    tries: int
    at: float
    prompt: str

    def is_called(self, name: str) -> bool:
        """Whether `name` is the node's id, the task's, or the beginning of the latter."""
        return name in (self.node, self.task) or (len(name) >= SHORTEST_ID and self.task.startswith(name))


class NoSuchTask(Exception):
    """A name that no failed task goes by; says so in one line, with the names that there are."""


def failed_tasks(store: Store, run_id: str) -> list[Failed]:
    """What the latest attempt at each plan has failed at and nothing has mended since, oldest first."""
    found: list[Failed] = []
    prompts = store.prompt_names(run_id)
    for name in store.plan_names(run_id):
        if (attempt := store.attempt(run_id, name)) == 0:
            continue  # a record without stages, such as Phase 0's
        records = store.stages(run_id, name)
        current = [r for f, r in records.items() if f.endswith(":failed") and r["attempt"] == attempt]
        if current and "stage" in current[0]:
            found += failed_candidates(store.plan(run_id, name), records, attempt, prompts)
    return sorted(found, key=lambda failed: failed.at)


def failed_candidates(
    plan: Plan, records: Mapping[str, Mapping[str, Any]], attempt: int, prompts: Sequence[str] = ()
) -> list[Failed]:
    """The candidates of one plan that this attempt has failed at, in the order of the plan."""
    found = []
    for candidate in plan.candidates:
        record = records.get(f"{candidate.index}:failed")
        if record is not None and record["attempt"] == attempt and outcome(candidate, records) is None:
            found.append(_failed(plan, candidate.index, record, prompts))
    return found


def chosen(failed: Sequence[Failed], names: Sequence[str]) -> list[Failed]:
    """Those that the names mean, all of them when there are no names.

    Raises: NoSuchTask for a name that means none.
    """
    for name in names:
        if not any(one.is_called(name) for one in failed):
            known = ", ".join(f"{one.node} ({one.task})" for one in failed) or "nothing has failed"
            raise NoSuchTask(f"no failed task is called {name!r}; there are: {known}")
    return [one for one in failed if not names or any(one.is_called(name) for name in names)]


def _failed(plan: Plan, index: int, record: Mapping[str, Any], prompts: Sequence[str]) -> Failed:
    node = plan.node(index, record["phase"])
    kind = {"reflect": "mutation", "merge": "merge"}.get(record["stage"], "none")
    stem = f"gen_{plan.generation}_{kind}_{node}"
    written = [name for name in prompts if name.removesuffix(".txt").partition("_attempt")[0] == stem]
    return Failed(
        plan=plan.name,
        generation=plan.generation,
        index=index,
        node=node,
        stage=record["stage"],
        error=record["error"],
        task=record["task"],
        tries=record["tries"],
        at=record["at"],
        prompt=max(written, key=len, default=""),
    )


def retry_failed(app: Celery, store: Store, run_id: str, names: Sequence[str] = ()) -> list[Failed]:
    """Have failed tasks done again, all of a run or those of these names (see `Failed.is_called`).

    `app` is any application of the farm's (`workers.app.create_app`).  Returns what was sent: of several who ask at
    once for the same task, one has it sent.
    Raises: NoSuchTask, before anything is sent.
    """
    wanted = chosen(failed_tasks(store, run_id), names)
    mine = [one for one in wanted if store.forget_failure(run_id, one.plan, str(one.index))]
    for name, group in itertools.groupby(sorted(mine, key=lambda one: one.plan), key=lambda one: one.plan):
        plan, records = store.plan(run_id, name), store.stages(run_id, name)
        candidates = [plan.candidate(one.index) for one in group]
        send(app, run_id, name, candidates, records, store.attempt(run_id, name), store.stage_limit(run_id))
    if mine:
        store.notify(run_id)
    return mine
