"""What a `route` run that goes on puts back into its store from its folder: results, and checkpoints of trainings.

A training's result is of use only with its checkpoint, which is a file of its own.  Without that file the result stays
out of the store, and a store that has lost it trains again.
"""

from __future__ import annotations

from pathlib import Path

from orchestrator.runs.journal import Journal
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
    if result is not None and checkpoint.exists():
        store.put_checkpoint(run_id, train_checkpoint(job), checkpoint.read_bytes())
        store.put_shared(run_id, job[0], result)
