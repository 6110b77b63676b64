"""What a `route` run that goes on puts back into its store from its folder: results, and checkpoints of trainings.

A training's result is of use only with its checkpoint, which is a file of its own.  Without that file, or where it is
another one, the result stays out of the store, and a store that has lost it trains again.
"""

from __future__ import annotations

import hashlib
from pathlib import Path

from orchestrator.guide.journal import Journal
from tasks.route.jobs import RouteJob, train_checkpoint
from tasks.store.store import Store

TRAINING = "routetrain:"  # how the keys of `train_job` begin


def restore_results(store: Store, run_id: str, journal: Journal) -> None:
    """All that the journal has but the trainings."""
    for key, result in journal.results.items():
        if not key.startswith(TRAINING):
            store.put_shared(run_id, key, result)


def restore_training(store: Store, run_id: str, journal: Journal, job: RouteJob, checkpoint: Path) -> None:
    """The result of a finished training, and its last checkpoint, which is in the file `checkpoint`."""
    result = journal.results.get(job[0])
    if result is None or not checkpoint.exists():
        return
    data = checkpoint.read_bytes()
    if hashlib.sha256(data).hexdigest() == result["sha256"]:
        store.put_checkpoint(run_id, train_checkpoint(job), data)
        store.put_shared(run_id, job[0], result)
