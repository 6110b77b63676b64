"""Retrying what failed, without a driver or under the eyes of one.

A failed message is not sent again: its chord has ended.  What the member still misses is sent as a new chord under the
dispatch that the plan has, and so whoever waits for the plan goes on waiting and finds the member done.  Without
anybody who waits, the results lie in the record until the run is started again.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence

from celery import Celery

from orchestrator.dispatch.chords import send
from orchestrator.dispatch.failures import Failed, chosen, failed_tasks
from tasks.store import Store


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
        members = [plan.member(one.index) for one in group]
        send(app, run_id, name, members, records, store.dispatch(run_id, name), store.stage_limit(run_id))
    if mine:
        store.wake(run_id)
    return mine
